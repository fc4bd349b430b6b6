package redislease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// model does what Redis does with the scripts of the package. It identifies a script by its text.
type model struct {
	bytes bool // bulk strings are []byte

	mu sync.Mutex
	// mu guards the following.
	hashes map[string][3]string // version, term, value
	set    []string
	calls  int
	twice  bool                                // the next script runs a second time, as if the reply of the first was lost
	answer func(reply any) (any, error)        // instead of the reply; nil is none
	script func(keys []string, args []any) any // a guarded one
}

func newModel() *model { return &model{hashes: make(map[string][3]string)} }

var errNetwork = errors.New("connection reset")

func (m *model) Eval(ctx context.Context, script string, keys []string, args ...any) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	reply := m.run(script, keys, args)
	if m.twice {
		m.twice = false
		reply = m.run(script, keys, args)
	}
	if m.answer != nil {
		return m.answer(reply)
	}
	return reply, nil
}

func (m *model) run(script string, keys []string, args []any) any {
	arg := func(i int) string { return args[i-1].(string) }
	switch {
	case strings.Contains(script, "SMEMBERS"):
		var all []any
		for _, k := range m.set {
			all = append(all, m.bulk(k))
		}
		slices.Reverse(all) // in no particular order
		return all
	case strings.Contains(script, "HMGET"):
		records := []any{}
		for _, k := range keys {
			if h, ok := m.hashes[k]; ok {
				records = append(records, []any{m.bulk(h[0]), m.bulk(h[1]), m.bulk(h[2])})
			} else {
				records = append(records, []any{})
			}
		}
		return records
	case strings.Contains(script, "guarded"):
		if m.hashes[keys[0]][1] != arg(1) {
			return []any{}
		}
		if reply := m.script(keys[1:], args[1:]); reply != nil {
			return []any{int64(1), reply}
		}
		return []any{int64(1)} // an array of Redis ends before nil
	}
	have, ok := m.hashes[keys[0]]
	if len(args) == 5 && (!ok || have[0] != arg(5) && have[0] != arg(1)) || len(args) == 4 && ok && have[0] != arg(1) {
		return int64(0)
	}
	m.hashes[keys[0]] = [3]string{arg(1), arg(2), arg(3)}
	if !slices.Contains(m.set, arg(4)) {
		m.set = append(m.set, arg(4))
	}
	return int64(1)
}

func (m *model) bulk(s string) any {
	if m.bytes {
		return []byte(s)
	}
	return s
}
