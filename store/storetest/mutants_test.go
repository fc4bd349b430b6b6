package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/storetest"
)

func TestSuiteDetectsEveryBackendMistake(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.promise, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failure := storetest.Failure(t, m.noticedBy, twins(func(h *twinHandle) backend.Backend {
					b := &broken{twinHandle: h}
					m.mutate(b)
					return b
				}))
				assert.NotEmpty(t, failure)
				t.Log(failure)
			})
		})
	}
}

const (
	manyWriters = "watches and lists through all handles agree during concurrent writes"
	bytesBack   = "a record round-trips exactly"
	keysBack    = "every valid key round-trips and is distinct"
	refusals    = "a failing or empty decide changes nothing, and its error is returned unwrapped"
	otherHandle = "a write through one handle is immediately visible through another"
	bookmarks   = "every kind has a bookmark soon after another kind has changed, and when nothing changes"
	leases      = "the terms of two leases are independent"
	termsRace   = "after a write of a term through one handle, no lower term is accepted through another"
	allFences   = "all fences of a write must hold, or none is recorded"
	queries     = "a watch of a query yields the records that enter it and those that leave it"
	manyKinds   = "watches and lists of two kinds agree during concurrent writes of both"
	remembered  = "the history has as many changes of a kind as the backend promises"
	underFences = "a watch yields what is written under fences"
	counted     = "a counter loses no concurrent update through all handles"
)

// mutants are the promises of a backend, each with a mistake that breaks it and the case that must detect it. The list in the documentation
// of Run is made of them.
var mutants = []struct {
	promise, noticedBy string
	mutate             func(b *broken)
}{
	{"a version is assigned at commit, not before", manyWriters, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, _ []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			return b.swap(kind, key, decide, true, func() informer.Version {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.version++
				return b.version
			})
		}
	}},
	{"a fence is raised by a write of nothing", "a raised fence refuses earlier terms through all handles, and writes nothing", func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			if have, err := b.twinHandle.Get(ctx, kind, key); err == nil && have.Version == 0 {
				if next, err := decide(have); next == nil && err == nil {
					return have, nil
				}
			}
			return b.twinHandle.Transact(ctx, kind, key, fences, decide)
		}
	}},
	{"writers of two kinds take turns in one sequence", manyKinds, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, _ []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			turn, _ := b.byKind.LoadOrStore(kind, make(chan struct{}, 1)) // shared by all handles
			turn.(chan struct{}) <- struct{}{}
			defer func() { <-turn.(chan struct{}) }()
			return b.swap(kind, key, decide, true, func() informer.Version {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.version++
				return b.version
			})
		}
	}},
	{"a tombstone carries the labels before it", queries, func(b *broken) {
		b.stored(func(r *backend.Record) {
			if r.Deleted {
				r.Before = nil
			}
		})
	}},
	{"a write under a fence is in the history", underFences, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			r, err := b.twinHandle.Transact(ctx, kind, key, fences, decide)
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(fences) > 1 {
				b.rows = slices.DeleteFunc(b.rows, func(row row) bool { return row.record.Version == r.Version })
			}
			return r, err
		}
	}},
	{"the promised number of changes is remembered", remembered, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			defer func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				if n := len(b.rows) - 990; n > 0 {
					b.dropLocked(n)
				}
			}()
			return b.twinHandle.Transact(ctx, kind, key, fences, decide)
		}
	}},
	{"the changes of another kind do not shorten the history", remembered, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			defer func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				if n := len(b.rows) - 1500; n > 0 {
					b.dropLocked(n)
				}
			}()
			return b.twinHandle.Transact(ctx, kind, key, fences, decide)
		}
	}},
	{"a great term is not clamped", allFences, func(b *broken) {
		b.fenced(func(_ string, f *backend.Fence) { f.Term = min(f.Term, 1<<63-1) })
	}},
	{"a great term is not stored as a negative number", allFences, func(b *broken) {
		b.fenced(func(_ string, f *backend.Fence) {
			if int64(f.Term) < 0 {
				f.Term = 0
			}
		})
	}},
	{"a large value is stored completely", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) { r.Value = r.Value[:min(len(r.Value), 1<<20)] })
	}},
	{"a bookmark is not seconds late", bookmarks, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			return tail(ctx, kind, q, after, func(at informer.Version) ([]row, informer.Version, <-chan struct{}, error) {
				news, to, more, err := b.since(at)
				if len(news) == 0 && err == nil {
					select {
					case <-more:
						news, to, more, err = b.since(at)
					case <-ctx.Done():
					case <-time.After(backend.BookmarkInterval + 500*time.Millisecond):
					}
				}
				return news, to, more, err
			})
		}
	}},
	{"a bookmark is not one behind", bookmarks, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			return func(yield func(backend.Change, error) bool) {
				at := after
				for c, err := range b.twinHandle.Watch(ctx, kind, q, after) {
					if err == nil && c.Record.Key == "" {
						c.Version = max(at, c.Version-1)
					}
					at = c.Version
					if !yield(c, err) {
						return
					}
				}
			}
		}
	}},
	{"a write compares and swaps in the database, not under a mutex of the handle", counted, func(b *broken) {
		turn := make(chan struct{}, 1)
		b.transact = func(
			ctx context.Context, kind, key string, _ []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			turn <- struct{}{}
			defer func() { <-turn }()
			return b.swap(kind, key, decide, false, func() informer.Version { return 0 })
		}
	}},
	{"a list is not older than its version", manyWriters, func(b *broken) {
		b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
			return func(yield func(backend.Page, error) bool) {
				all, _ := b.snapshot(kind, q)
				version := b.last()
				pages(ctx, all, yield, func() informer.Version { return version })
			}
		}
	}},
	{"a list is not newer than its version", manyWriters, func(b *broken) {
		b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
			return func(yield func(backend.Page, error) bool) {
				_, version := b.snapshot(kind, q)
				time.Sleep(network)
				all, _ := b.snapshot(kind, q)
				pages(ctx, all, yield, func() informer.Version { return version })
			}
		}
	}},
	{"all pages of a list have one version", manyWriters, func(b *broken) {
		b.paged(func(int, informer.Version) informer.Version { return b.last() })
	}},
	{"a deletion is yielded", manyWriters, func(b *broken) {
		b.reported(func(c *backend.Change, _ *error) bool { return !c.Record.Deleted })
	}},
	{"a change is yielded once", manyWriters, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			return func(yield func(backend.Change, error) bool) {
				for c, err := range b.twinHandle.Watch(ctx, kind, q, after) {
					if !yield(c, err) || c.Record.Key != "" && !yield(c, err) {
						return
					}
				}
			}
		}
	}},
	{"a watch whose history was truncated ends with ErrExpired", "a watch from before the history expires, and a list recovers", func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.twinHandle.Watch(ctx, kind, q, max(after, b.dropped))
		}
	}},
	{"a watch from a future version ends with ErrExpired", "a watch from a version that the store has not reached is expired", func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.twinHandle.Watch(ctx, kind, q, min(after, b.lastLocked()))
		}
	}},
	{"a bookmark is not ahead of a change", manyWriters, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			return tail(ctx, kind, q, after, func(at informer.Version) ([]row, informer.Version, <-chan struct{}, error) {
				news, _, more, err := b.since(at)
				return news, b.last(), more, err // asked for when the rows were read
			})
		}
	}},
	{"a watch that is idle yields bookmarks", bookmarks, func(b *broken) {
		idle := false
		b.reported(func(c *backend.Change, err *error) bool {
			was := idle
			idle = *err == nil && c.Record.Key == ""
			return !idle || !was
		})
	}},
	{"a change of another kind yields a bookmark", bookmarks, func(b *broken) {
		b.reported(func(c *backend.Change, err *error) bool { return *err != nil || c.Record.Key != "" })
	}},
	{"a key is stored completely", keysBack, func(b *broken) {
		b.keyed(func(key string) string { return key[:min(len(key), 255)] })
	}},
	{"keys differ by case", keysBack, func(b *broken) { b.keyed(strings.ToLower) }},
	{"keys differ by spaces at the end", keysBack, func(b *broken) {
		b.keyed(func(key string) string { return strings.TrimRight(key, " ") })
	}},
	{"keys are ordered by their bytes", keysBack, func(b *broken) {
		b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
			return func(yield func(backend.Page, error) bool) {
				all, version := b.snapshot(kind, q)
				slices.SortStableFunc(all, func(a, b backend.Record) int {
					return strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key))
				})
				pages(ctx, all, yield, func() informer.Version { return version })
			}
		}
	}},
	{"a list is complete", "a list has every record, however many", func(b *broken) {
		b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
			return func(yield func(backend.Page, error) bool) {
				all, version := b.snapshot(kind, q)
				yield(backend.Page{Records: all[:min(len(all), 1000)], Version: version}, context.Cause(ctx))
			}
		}
	}},
	{"the prefix of a list is no pattern", queries, func(b *broken) {
		b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
			if strings.ContainsAny(q.Prefix, `_[\`) {
				q.Prefix = "no such key"
			}
			return b.twinHandle.List(ctx, kind, q)
		}
	}},
	{"the prefix of a watch is no pattern", queries, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			if strings.ContainsAny(q.Prefix, "*>") {
				q.Prefix = "no such key"
			}
			return b.twinHandle.Watch(ctx, kind, q, after)
		}
	}},
	{"a watch of a query negates rules", queries, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			q.Labels = slices.Clone(q.Labels)
			for i := range q.Labels {
				q.Labels[i].Not = false
			}
			return b.twinHandle.Watch(ctx, kind, q, after)
		}
	}},
	{"a watch of a query yields a bookmark for what it leaves out", bookmarks, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			return func(yield func(backend.Change, error) bool) {
				for c, err := range b.twinHandle.Watch(ctx, kind, q, after) {
					if err == nil && c.Record.Key == "" && q.Prefix != "" {
						c.Version = after
					}
					if !yield(c, err) {
						return
					}
				}
			}
		}
	}},
	{"a value is stored completely", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) { r.Value = r.Value[:min(len(r.Value), 1<<16-1)] })
	}},
	{"Meta is stored completely", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) { r.Meta = r.Meta[:min(len(r.Meta), 1<<16-1)] })
	}},
	{"a label is stored completely", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) {
			r.Labels = maps.Clone(r.Labels)
			for name, value := range r.Labels {
				r.Labels[name] = value[:min(len(value), 255)]
			}
		})
	}},
	{"a value keeps bytes that are not UTF-8", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) { r.Value = bytes.ToValidUTF8(r.Value, []byte("\ufffd")) })
	}},
	{"a value keeps NUL", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) { r.Value = bytes.ReplaceAll(r.Value, []byte{0}, nil) })
	}},
	{"Meta round-trips exactly", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) { r.Meta = bytes.ReplaceAll(r.Meta, []byte(" "), nil) })
	}},
	{"an empty Before is not nil", bytesBack, func(b *broken) {
		b.stored(func(r *backend.Record) {
			if len(r.Before) == 0 {
				r.Before = nil
			}
		})
	}},
	{"Before is stored", bytesBack, func(b *broken) { b.stored(func(r *backend.Record) { r.Before = nil }) }},
	{"labels are stored", bytesBack, func(b *broken) { b.stored(func(r *backend.Record) { r.Labels = nil }) }},
	{"each lease has its own term", leases, func(b *broken) {
		b.fenced(func(_ string, f *backend.Fence) { f.Lease = "" })
	}},
	{"the name of a lease is stored completely", leases, func(b *broken) {
		b.fenced(func(_ string, f *backend.Fence) { f.Lease = f.Lease[:min(len(f.Lease), 255)] })
	}},
	{"a term is not forgotten with the history", "a watch from before the history expires, and a list recovers", func(b *broken) {
		b.expireTerms = true
	}},
	{"a term holds for all kinds", "a write of an older term is fenced", func(b *broken) {
		b.fenced(func(kind string, f *backend.Fence) { f.Lease += "/" + kind })
	}},
	{"a term holds for all handles", termsRace, func(b *broken) {
		b.fenced(func(_ string, f *backend.Fence) { f.Lease += fmt.Sprintf("/%p", b) })
	}},
	{"a term is a number of 63 bits, not a float", allFences, func(b *broken) {
		b.fenced(func(_ string, f *backend.Fence) { f.Term = uint64(float64(f.Term)) })
	}},
	{"no term is recorded if decide fails", refusals, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			_, err := b.twinHandle.Transact(ctx, "x", "x", fences, func(backend.Record) (*backend.Record, error) { return nil, nil })
			if err != nil {
				return backend.Record{}, err
			}
			return b.twinHandle.Transact(ctx, kind, key, fences, decide)
		}
	}},
	{"a term is recorded even if nothing is written", refusals, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			nothing := errors.New("nothing to write")
			r, err := b.twinHandle.Transact(ctx, kind, key, fences, func(have backend.Record) (*backend.Record, error) {
				next, err := decide(have)
				if next == nil && err == nil {
					err = nothing
				}
				return next, err
			})
			if errors.Is(err, nothing) {
				return b.twinHandle.Get(ctx, kind, key)
			}
			return r, err
		}
	}},
	{"all fences of a write are checked", allFences, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			return b.twinHandle.Transact(ctx, kind, key, fences[:min(1, len(fences))], decide)
		}
	}},
	{"no term is recorded if another one has ended", allFences, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for i := range fences {
				if err := b.checkLocked(fences[i : i+1]); err != nil {
					return backend.Record{}, err
				}
				b.recordLocked(fences[i : i+1])
			}
			b.mu.Unlock()
			defer b.mu.Lock()
			return b.twinHandle.Transact(ctx, kind, key, nil, decide)
		}
	}},
	{"decide receives the tombstone", "decide receives nothing, the record, or its tombstone", func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			return b.twinHandle.Transact(ctx, kind, key, fences, func(have backend.Record) (*backend.Record, error) {
				if have.Deleted {
					have = backend.Record{}
				}
				return decide(have)
			})
		}
	}},
	{"a tombstone carries the last state", "an object with finalizers is deleted when the last one is removed", func(b *broken) {
		b.stored(func(r *backend.Record) {
			if r.Deleted {
				r.Value = nil
			}
		})
	}},
	{"an error from decide is returned unwrapped", refusals, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			r, err := b.twinHandle.Transact(ctx, kind, key, fences, decide)
			if err != nil {
				err = fmt.Errorf("transact: %v", err)
			}
			return r, err
		}
	}},
	{"a watch of a query yields records that leave it", queries, func(b *broken) {
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			return func(yield func(backend.Change, error) bool) {
				for c, err := range b.twinHandle.Watch(ctx, kind, q, after) {
					if err == nil && !q.Matches(c.Record.Key, c.Record.Labels) {
						c.Record = backend.Record{} // a bookmark in the place of the change
					}
					if !yield(c, err) {
						return
					}
				}
			}
		}
	}},
	{"one sequence of versions covers all kinds", "one sequence of versions covers all kinds", func(b *broken) {
		of := func(kind string) *twinHandle {
			own, _ := b.byKind.LoadOrStore(kind, newTwin())
			return &twinHandle{twin: own.(*twin)}
		}
		b.get = func(ctx context.Context, kind, key string) (backend.Record, error) {
			return of(kind).Get(ctx, kind, key)
		}
		b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
			return of(kind).List(ctx, kind, q)
		}
		b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
			return of(kind).Watch(ctx, kind, q, after)
		}
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			return of(kind).Transact(ctx, kind, key, fences, decide)
		}
	}},
	{"a write that lost a race calls decide again", manyWriters, func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			have, err := b.twinHandle.Get(ctx, kind, key)
			if err != nil {
				return have, err
			}
			next, err := decide(have)
			time.Sleep(network)
			return b.twinHandle.Transact(ctx, kind, key, fences, func(backend.Record) (*backend.Record, error) { return next, err })
		}
	}},
	{"a call with an ended context writes nothing", "the end of the context ends every call with its cause", func(b *broken) {
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			r, err := b.twinHandle.Transact(context.WithoutCancel(ctx), kind, key, fences, decide)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return r, err
		}
	}},
	{"a watch ends with the cause of its context", "the end of the context ends every call with its cause", func(b *broken) {
		b.reported(func(_ *backend.Change, err *error) bool { return *err == nil })
	}},
	{"a read through another handle does not lag", otherHandle, func(b *broken) {
		var mine sync.Map // what this handle has read, until it writes
		b.get = func(ctx context.Context, kind, key string) (backend.Record, error) {
			if r, ok := mine.Load(place(kind, key)); ok {
				return r.(backend.Record), context.Cause(ctx)
			}
			r, err := b.twinHandle.Get(ctx, kind, key)
			mine.Store(place(kind, key), r)
			return r, err
		}
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			defer mine.Delete(place(kind, key))
			return b.twinHandle.Transact(ctx, kind, key, fences, decide)
		}
	}},
	{"a list through another handle does not lag", otherHandle, func(b *broken) {
		type page struct {
			backend.Page
			kind string
		}
		var seen page // what this handle has listed, until it writes
		b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
			return func(yield func(backend.Page, error) bool) {
				if seen.kind != kind {
					seen.kind = kind
					seen.Records, seen.Version = b.snapshot(kind, q)
				}
				yield(seen.Page, context.Cause(ctx))
			}
		}
		b.transact = func(
			ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
		) (backend.Record, error) {
			seen = page{}
			return b.twinHandle.Transact(ctx, kind, key, fences, decide)
		}
	}},
}
