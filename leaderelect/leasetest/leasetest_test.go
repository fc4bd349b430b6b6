package leasetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestEveryMistakeOfAStoreIsNoticed(t *testing.T) {
	for mistake, s := range map[string]func() leaderelect.LeaseStore{
		"Get invents a record":        func() leaderelect.LeaseStore { return &broken{inventive: true} },
		"Create replaces":             func() leaderelect.LeaseStore { return &broken{createReplaces: true} },
		"Update creates":              func() leaderelect.LeaseStore { return &broken{updateCreates: true} },
		"Update ignores the version":  func() leaderelect.LeaseStore { return &broken{blind: true} },
		"Update takes no version":     func() leaderelect.LeaseStore { return &broken{versionless: true} },
		"Update compares a prefix":    func() leaderelect.LeaseStore { return &broken{prefix: true} },
		"the version is a checksum":   func() leaderelect.LeaseStore { return &broken{checksum: true} },
		"the version wraps":           func() leaderelect.LeaseStore { return &broken{wraps: true} },
		"the version is empty":        func() leaderelect.LeaseStore { return &broken{unversioned: true} },
		"the old version is returned": func() leaderelect.LeaseStore { return &broken{returnsOld: true} },
		"Update is not atomic":        func() leaderelect.LeaseStore { return &broken{racy: true} },
		"the term is dropped":         func() leaderelect.LeaseStore { return &broken{termless: true} },
		"the term is 32 bits":         func() leaderelect.LeaseStore { return &broken{shortTerm: true} },
		"keys ignore case":            func() leaderelect.LeaseStore { return &broken{mapKey: strings.ToLower} },
		"keys are trimmed":            func() leaderelect.LeaseStore { return &broken{mapKey: strings.TrimSpace} },
		"keys end at NUL": func() leaderelect.LeaseStore {
			return &broken{mapKey: func(k string) string { k, _, _ = strings.Cut(k, "\x00"); return k }}
		},
		"keys are cut": func() leaderelect.LeaseStore {
			return &broken{mapKey: func(k string) string { return k[:min(len(k), 255)] }}
		},
		"values are trimmed": func() leaderelect.LeaseStore { return &broken{mapValue: bytes.TrimSpace} },
		"values end at NUL":  func() leaderelect.LeaseStore { return &broken{mapValue: upToNUL} },
		"values are cut": func() leaderelect.LeaseStore {
			return &broken{mapValue: func(v []byte) []byte { return v[:min(len(v), 4096)] }}
		},
		"values are not copied":  func() leaderelect.LeaseStore { return &broken{aliases: true} },
		"contexts are ignored":   func() leaderelect.LeaseStore { return &broken{ignoresContext: true} },
		"an end is a conflict":   func() leaderelect.LeaseStore { return &broken{endIs: leaderelect.ErrConflict} },
		"an end is not found":    func() leaderelect.LeaseStore { return &broken{endIs: leaderelect.ErrNotFound} },
		"reopened, it is empty":  func() leaderelect.LeaseStore { return forgetful{leaderelect.NewMemoryStore()} },
		"not found is an error":  func() leaderelect.LeaseStore { return &broken{vague: true} },
		"a conflict is an error": func() leaderelect.LeaseStore { return &broken{vagueConflict: true} },
	} {
		t.Run(mistake, func(t *testing.T) { assert.Positive(t, failures(s)) })
	}
}

func TestAStoreWithoutMistakesPasses(t *testing.T) {
	assert.Zero(t, failures(func() leaderelect.LeaseStore { return &broken{} }))
}

// failures returns how many cases a store fails.
func failures(newStore func() leaderelect.LeaseStore) int {
	n := 0
	for _, c := range cases() {
		r := &recorder{}
		done := make(chan struct{})
		go func() { // because Fatalf ends it
			defer close(done)
			c.test(r, newStore())
		}()
		<-done
		if r.failed {
			n++
		}
	}
	return n
}

// recorder is a testing.TB for a case that is meant to fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(...any) { runtime.Goexit() }

func (r *recorder) Fatalf(string, ...any) {
	r.failed = true
	runtime.Goexit()
}

// broken is a store that makes the mistakes whose fields are set.
type broken struct {
	inventive, createReplaces, updateCreates, blind, versionless, prefix, checksum, wraps, unversioned, returnsOld bool
	racy, termless, shortTerm, aliases, ignoresContext, vague, vagueConflict                                       bool

	mapKey   func(string) string
	mapValue func([]byte) []byte
	endIs    error

	mu sync.Mutex
	// mu guards the following.
	entries map[string]leaderelect.Entry
	writes  int
}

var errVague = errors.New("something went wrong")

func (b *broken) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ended(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	e, ok := b.entries[b.key(key)]
	switch {
	case !ok && b.inventive:
		return leaderelect.Entry{Key: key, Version: "0"}, nil
	case !ok && b.vague:
		return leaderelect.Entry{}, errVague
	case !ok:
		return leaderelect.Entry{}, leaderelect.ErrNotFound
	}
	e.Key = key
	return b.copied(e), nil
}

func (b *broken) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ended(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	if _, ok := b.entries[b.key(e.Key)]; ok && !b.createReplaces {
		return leaderelect.Entry{}, b.conflict()
	}
	return b.putLocked(e), nil
}

func (b *broken) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ended(ctx); err != nil {
		return leaderelect.Entry{}, err
	}
	have, ok := b.entries[b.key(e.Key)]
	same := have.Version == e.Version || b.blind || b.versionless && e.Version == "" ||
		b.prefix && have.Version != "" && strings.HasPrefix(e.Version, have.Version)
	if ok && !same || !ok && !b.updateCreates {
		return leaderelect.Entry{}, b.conflict()
	}
	if b.racy {
		b.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		b.mu.Lock()
	}
	return b.putLocked(e), nil
}

func (b *broken) putLocked(e leaderelect.Entry) leaderelect.Entry {
	old := e.Version
	b.writes++
	switch {
	case b.checksum:
		e.Version = fmt.Sprint(crc32.ChecksumIEEE(e.Value))
	case b.wraps:
		e.Version = strconv.Itoa(b.writes % 128)
	case b.unversioned:
		e.Version = ""
	default:
		e.Version = strconv.Itoa(b.writes)
	}
	kept := b.copied(e)
	if b.mapValue != nil {
		kept.Value = b.mapValue(kept.Value)
	}
	if b.termless {
		kept.Term = 0
	}
	if b.shortTerm {
		kept.Term = uint64(uint32(kept.Term))
	}
	if b.entries == nil {
		b.entries = make(map[string]leaderelect.Entry)
	}
	b.entries[b.key(e.Key)] = kept
	if b.returnsOld && old != "" {
		e.Version = old
	}
	return b.copied(e)
}

func (b *broken) ended(ctx context.Context) error {
	switch {
	case ctx.Err() == nil || b.ignoresContext:
		return nil
	case b.endIs != nil:
		return b.endIs
	default:
		return ctx.Err()
	}
}

func (b *broken) conflict() error {
	if b.vagueConflict {
		return errVague
	}
	return leaderelect.ErrConflict
}

func (b *broken) key(key string) string {
	if b.mapKey == nil {
		return key
	}
	return b.mapKey(key)
}

func (b *broken) copied(e leaderelect.Entry) leaderelect.Entry {
	if !b.aliases {
		e.Value = bytes.Clone(e.Value)
	}
	return e
}

func upToNUL(v []byte) []byte {
	v, _, _ = bytes.Cut(v, []byte{0})
	return v
}

// forgetful opens as another store.
type forgetful struct{ *leaderelect.MemoryStore }

func (forgetful) Reopen(testing.TB) leaderelect.LeaseStore { return leaderelect.NewMemoryStore() }
