package expectations_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/expectations"
)

const ttl = time.Minute

// model is what the three types have in common, the slow way: until when each key waits, and what has been reported.
type model struct {
	until    map[string]time.Time
	reported []string // by OnExpired
	expired  []string // by the model
}

func newModel() *model { return &model{until: make(map[string]time.Time)} }

func (m *model) config() expectations.Config[string] {
	return expectations.Config[string]{TTL: ttl, OnExpired: func(key string) { m.reported = append(m.reported, key) }}
}

// expire drops what has expired, and calls drop for each key of it; that returns whether it is worth a report.
func (m *model) expire(drop func(key string) bool) {
	now := time.Now()
	for _, key := range []string{"a", "b"} { // both at once only when they were set at once, a first
		at, waits := m.until[key]
		if waits && !now.Before(at) {
			delete(m.until, key)
			if drop(key) {
				m.expired = append(m.expired, key)
			}
		}
	}
}

// subject is one of the three types, beside its model.
type subject interface {
	actions() []func()
	check() error
}

// compare is called after each action, with what a subject says of a key.
func (m *model) compare(key string, satisfied bool, at time.Time, waits bool) error {
	until, want := m.until[key]
	if satisfied == want || waits != want || at != until {
		return fmt.Errorf("%s: satisfied %v, expires at %v, %v; want %v, %v", key, satisfied, at, waits, until, want)
	}
	if !sameSet(m.reported, m.expired) {
		return fmt.Errorf("reported %v, want %v", m.reported, m.expired)
	}
	return nil
}

// sameSet compares regardless of order: what expires in one call may have been set in any.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// everyHistory runs every sequence of so many actions, and checks after each action.
func everyHistory(t *testing.T, length int, start func() subject) {
	synctest.Test(t, func(t *testing.T) {
		n := len(start().actions())
		histories := 0
		var extend func(history []int)
		extend = func(history []int) {
			if len(history) < length {
				for a := range n {
					extend(append(slices.Clip(history), a))
				}
				return
			}
			histories++
			s := start()
			actions := s.actions()
			for i, a := range history {
				actions[a]()
				if err := s.check(); err != nil {
					t.Fatalf("%v: %v", history[:i+1], err)
				}
			}
		}
		extend(nil)
		t.Logf("%d histories", histories)
	})
}

// half lets half of the TTL pass, and whole all of it.
func half()  { time.Sleep(ttl / 2) }
func whole() { time.Sleep(ttl) }

type counted struct {
	*model
	c *expectations.Counted[string]
	n map[string][2]int // creations, deletions
}

func newCounted() subject {
	m := newModel()
	return &counted{m, expectations.NewCounted(m.config()), make(map[string][2]int)}
}

// change makes n what key expects.
func (s *counted) change(key string, n [2]int, renew bool) {
	n = [2]int{max(n[0], 0), max(n[1], 0)}
	_, waits := s.until[key]
	switch {
	case n == [2]int{}:
		delete(s.until, key)
	case renew || !waits:
		s.until[key] = time.Now().Add(ttl)
	}
	s.n[key] = n
}

func (s *counted) add(key string, creations, deletions int, renew bool) {
	s.change(key, [2]int{s.n[key][0] + creations, s.n[key][1] + deletions}, renew)
}

func (s *counted) actions() []func() {
	return []func(){
		func() { s.c.ExpectCreations("a", 2); s.add("a", 2, 0, true) },
		func() { s.c.ExpectDeletions("a", 1); s.add("a", 0, 1, true) },
		func() { s.c.ExpectCreations("b", 1); s.add("b", 1, 0, true) },
		func() { s.c.ExpectCreations("a", 0); s.c.ExpectDeletions("a", 0) },
		func() { s.c.CreationObserved("a"); s.add("a", -1, 0, false) },
		func() { s.c.DeletionObserved("a"); s.add("a", 0, -1, false) },
		func() { s.c.SetExpectations("a", 1, 2); s.change("a", [2]int{1, 2}, true) },
		func() { s.c.SetExpectations("a", 0, 0); s.change("a", [2]int{}, true) },
		func() { s.c.RaiseExpectations("a", 1, 0); s.add("a", 1, 0, false) },
		func() { s.c.LowerExpectations("a", 2, 2); s.add("a", -2, -2, false) },
		func() { s.c.DeleteExpectations("a"); s.change("a", [2]int{}, false) },
		half,
		whole,
	}
}

func (s *counted) check() error {
	s.expire(func(key string) bool { delete(s.n, key); return true })
	for _, key := range []string{"a", "b"} {
		at, waits := s.c.Expires(key)
		if err := s.compare(key, s.c.SatisfiedExpectations(key), at, waits); err != nil {
			return err
		}
	}
	return s.c.CheckInvariants()
}

func TestEveryShortHistoryOfCountedEqualsTheModel(t *testing.T) { everyHistory(t, 4, newCounted) }

type tracked struct {
	*model
	t   *expectations.Tracked[string, int]
	ids map[string]map[string]bool // by key; "+1" is the creation of 1

	early map[string]bool // what a has seen since Begin; nil when it does not act
}

func newTracked() subject {
	m := newModel()
	return &tracked{m, expectations.NewTracked[string, int](m.config()), map[string]map[string]bool{"a": {}, "b": {}}, nil}
}

func (s *tracked) expect(key string, events ...string) {
	s.until[key] = time.Now().Add(ttl)
	for _, e := range events {
		if key != "a" || !s.early[e] {
			s.ids[key][e] = true
		}
	}
	s.settle(key)
}

func (s *tracked) observe(key, event string) {
	if s.early != nil {
		s.early[event] = true
	}
	delete(s.ids[key], event)
	s.settle(key)
}

func (s *tracked) settle(key string) {
	if len(s.ids[key]) == 0 && (key != "a" || s.early == nil) {
		delete(s.until, key)
	}
}

func (s *tracked) forget(key string) {
	clear(s.ids[key])
	if key == "a" {
		s.early = nil
	}
	s.settle(key)
}

func (s *tracked) actions() []func() {
	return []func(){
		func() { s.t.ExpectCreations("a", 1, 2, 1); s.expect("a", "+1", "+2") },
		func() { s.t.ExpectCreations("a", 2); s.expect("a", "+2") },
		func() { s.t.ExpectCreations("a"); s.t.ExpectDeletions("a") },
		func() { s.t.ExpectDeletions("a", 1); s.expect("a", "-1") },
		func() { s.t.ExpectDeletions("b", 1, 2); s.expect("b", "-1", "-2") },
		func() { s.t.CreationObserved("a", 1); s.observe("a", "+1") },
		func() { s.t.CreationObserved("a", 2); s.observe("a", "+2") },
		func() { s.t.DeletionObserved("a", 1); s.observe("a", "-1") },
		func() { s.t.DeletionObserved("a", 2); s.observe("a", "-2") },
		func() { s.t.Delete("a"); s.forget("a") },
		func() { s.t.Begin("a"); s.early = map[string]bool{}; s.until["a"] = time.Now().Add(ttl) },
		func() { s.t.End("a"); s.early = nil; s.settle("a") },
		half,
		whole,
	}
}

func (s *tracked) check() error {
	s.expire(func(key string) bool { s.forget(key); return true })
	for _, key := range []string{"a", "b"} {
		at, waits := s.t.Expires(key)
		if err := s.compare(key, s.t.Satisfied(key), at, waits); err != nil {
			return err
		}
	}
	return s.t.CheckInvariants()
}

func TestEveryShortHistoryOfTrackedEqualsTheModel(t *testing.T) { everyHistory(t, 4, newTracked) }

type versions struct {
	*model
	v    *expectations.Versions[string]
	want map[string]uint64
	seen uint64 // by the cache, at most
	err  error
}

func newVersions() subject {
	m := newModel()
	return &versions{model: m, v: expectations.NewVersions(m.config()), want: make(map[string]uint64)}
}

func (s *versions) expect(key string, version uint64) {
	s.v.ExpectVersion(key, version)
	if version > s.want[key] {
		s.want[key] = version
		s.until[key] = time.Now().Add(ttl)
	}
}

// ask asks for key with a cache at version seen.
func (s *versions) ask(key string, seen uint64) {
	got := s.v.Satisfied(key, seen)
	s.seen = max(s.seen, seen)
	if want := s.want[key] <= seen; got != want {
		s.err = fmt.Errorf("%s at %d: satisfied %v, but it expects %d", key, seen, got, s.want[key])
	}
	if got {
		delete(s.want, key)
		delete(s.until, key)
	}
}

func (s *versions) actions() []func() {
	return []func(){
		func() { s.expect("a", 0) },
		func() { s.expect("a", 1) },
		func() { s.expect("a", 3) },
		func() { s.expect("b", 2) },
		func() { s.ask("a", 1) },
		func() { s.ask("a", 2) },
		func() { s.ask("b", 3) },
		func() { s.ask("b", 1) },
		func() { s.v.Delete("a"); delete(s.want, "a"); delete(s.until, "a") },
		half,
		whole,
		func() { // whoever asks first after the expiry brings the news that the cache has caught up
			whole()
			s.seen = max(s.seen, 2)
			s.expire(s.drop)
			s.ask("a", 2)
		},
	}
}

// drop reports what has expired and was not met.
func (s *versions) drop(key string) bool {
	met := s.want[key] <= s.seen
	delete(s.want, key)
	return !met
}

func (s *versions) check() error {
	s.expire(s.drop)
	for _, key := range []string{"a", "b"} {
		at, waits := s.v.Expires(key)
		if err := s.compare(key, !waits, at, waits); err != nil {
			return err
		}
	}
	if s.err != nil {
		return s.err
	}
	return s.v.CheckInvariants()
}

func TestEveryShortHistoryOfVersionsEqualsTheModel(t *testing.T) { everyHistory(t, 4, newVersions) }
