package storetest_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/storetest"
	"github.com/setpoint-go/setpoint/wait"
)

// twinHistory is how many changes of all kinds a twin remembers.
const twinHistory = 3000

// twin is a database in memory that is right, as a table of changes with a column for the version. The mutants break it.
type twin struct {
	mu sync.Mutex
	// mu guards the following.
	version informer.Version // the last one that was drawn
	rows    []row            // in order of version
	dropped informer.Version // of the last row that was dropped
	latest  map[string]row   // by kind and key
	terms   map[string]uint64
	more    chan struct{} // closed and replaced by each write

	byKind      sync.Map // of a mutant: a *twin, or a turn, for each kind
	expireTerms bool     // of a mutant: expire forgets the terms
}

type row struct {
	kind   string
	record backend.Record
}

func newTwin() *twin {
	return &twin{latest: map[string]row{}, terms: map[string]uint64{}, more: make(chan struct{})}
}

func place(kind, key string) string { return kind + "\x00" + key }

// twinHandle is one of several clients of a twin.
type twinHandle struct {
	backend.Kinds
	*twin
}

func (h *twinHandle) Capabilities() backend.Capabilities { return backend.Capabilities{} }

func (h *twinHandle) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest[place(kind, key)].record, context.Cause(ctx)
}

// snapshot returns what a list holds, and its version.
func (db *twin) snapshot(kind string, q backend.Query) ([]backend.Record, informer.Version) {
	db.mu.Lock()
	defer db.mu.Unlock()
	var all []backend.Record
	for _, r := range db.latest {
		if r.kind == kind && !r.record.Deleted && q.Matches(r.record.Key, r.record.Labels) {
			all = append(all, r.record)
		}
	}
	slices.SortFunc(all, func(a, b backend.Record) int { return strings.Compare(a.Key, b.Key) })
	return all, db.lastLocked()
}

// lastLocked returns the version of the last commit.
func (db *twin) lastLocked() informer.Version {
	if len(db.rows) == 0 {
		return db.dropped
	}
	return db.rows[len(db.rows)-1].record.Version
}

// List yields pages of two records.
func (h *twinHandle) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		all, version := h.snapshot(kind, q)
		pages(ctx, all, yield, func() informer.Version { return version })
	}
}

func pages(ctx context.Context, all []backend.Record, yield func(backend.Page, error) bool, version func() informer.Version) {
	for first := true; first || len(all) > 0; first = false {
		if ctx.Err() != nil {
			yield(backend.Page{}, context.Cause(ctx))
			return
		}
		n := min(2, len(all))
		if !yield(backend.Page{Records: all[:n:n], Version: version()}, nil) {
			return
		}
		all = all[n:]
	}
}

// since returns the rows after a version, the version up to which it has looked, and what tells of more.
func (db *twin) since(after informer.Version) (news []row, to informer.Version, more <-chan struct{}, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if to = db.lastLocked(); after > to || after < db.dropped {
		return nil, 0, nil, fmt.Errorf("%w: version %d is not in the history", backend.ErrExpired, after)
	}
	i := sort.Search(len(db.rows), func(i int) bool { return db.rows[i].record.Version > after })
	return slices.Clone(db.rows[i:]), to, db.more, nil
}

func (h *twinHandle) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return tail(ctx, kind, q, after, h.since)
}

// tail is a watch that reads news by since.
func tail(
	ctx context.Context, kind string, q backend.Query, at informer.Version,
	since func(informer.Version) ([]row, informer.Version, <-chan struct{}, error),
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		at := at
		for ctx.Err() == nil {
			news, to, more, err := since(at)
			if err != nil {
				yield(backend.Change{}, err)
				return
			}
			for _, r := range news {
				if at = r.record.Version; r.kind == kind && q.Concern(&r.record) {
					if !yield(backend.Change{Record: r.record, Version: at}, nil) {
						return
					}
				}
			}
			if len(news) > 0 {
				if at = max(at, to); !yield(backend.Change{Version: at}, nil) {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
			case <-time.After(backend.BookmarkInterval / 2):
				if !yield(backend.Change{Version: at}, nil) {
					return
				}
			}
		}
		yield(backend.Change{}, context.Cause(ctx))
	}
}

func (h *twinHandle) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return backend.Record{}, context.Cause(ctx)
	}
	if err := h.checkLocked(fences); err != nil {
		return backend.Record{}, err
	}
	have := h.latest[place(kind, key)].record
	next, err := decide(have)
	if err != nil {
		return backend.Record{}, err
	}
	h.recordLocked(fences)
	if next == nil {
		return have, nil
	}
	h.version++
	return h.commitLocked(kind, key, *next, h.version), nil
}

func (db *twin) checkLocked(fences []backend.Fence) error {
	for _, f := range fences {
		if err := f.Check(db.terms[f.Lease]); err != nil {
			return err
		}
	}
	return nil
}

func (db *twin) recordLocked(fences []backend.Fence) {
	for _, f := range fences {
		db.terms[f.Lease] = max(db.terms[f.Lease], f.Term)
	}
}

func (db *twin) commitLocked(kind, key string, r backend.Record, v informer.Version) backend.Record {
	r.Key, r.Version = key, v
	i := sort.Search(len(db.rows), func(i int) bool { return db.rows[i].record.Version > v })
	db.rows = slices.Insert(db.rows, i, row{kind, r})
	db.latest[place(kind, key)] = row{kind, r}
	if len(db.rows) > twinHistory {
		db.dropLocked(1)
	}
	close(db.more)
	db.more = make(chan struct{})
	return r
}

func (db *twin) dropLocked(n int) {
	db.dropped = db.rows[n-1].record.Version
	db.rows = db.rows[n:]
}

// expire forgets all changes.
func (db *twin) expire(string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.rows) > 0 {
		db.dropLocked(len(db.rows))
	}
	if db.expireTerms {
		clear(db.terms)
	}
	return nil
}

// twins returns an empty twin behind two handles, each as broken by wrap.
func twins(wrap func(h *twinHandle) backend.Backend) storetest.Database {
	db := newTwin()
	return storetest.Database{
		Handles:   []backend.Backend{wrap(&twinHandle{twin: db}), wrap(&twinHandle{twin: db})},
		Remembers: 1000,
		Expire:    db.expire,
	}
}

func TestCorrectBackendPassesSuite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		assert.Empty(t, storetest.Failures(t, func() storetest.Database {
			return twins(func(h *twinHandle) backend.Backend { return &broken{twinHandle: h} }) // with no mistake
		}))
	})
}

// slow is a backend whose calls take their time.
type slow struct{ backend.Backend }

// work takes as long as a call.
func (slow) work(ctx context.Context) error { return wait.Sleep(ctx, 200*time.Millisecond) }

func (s slow) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if err := s.work(ctx); err != nil {
		return backend.Record{}, err
	}
	return s.Backend.Get(ctx, kind, key)
}

func (s slow) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := s.work(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		s.Backend.List(ctx, kind, q)(yield)
	}
}

func (s slow) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	if err := s.work(ctx); err != nil {
		return backend.Record{}, err
	}
	return s.Backend.Transact(ctx, kind, key, fences, decide)
}

// A case may take longer than Patience, if every single call is fast enough.
func TestSlowBackendPassesSuite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		assert.Empty(t, storetest.Failures(t, func() storetest.Database {
			return twins(func(h *twinHandle) backend.Backend { return slow{&broken{twinHandle: h}} })
		}))
	})
}
