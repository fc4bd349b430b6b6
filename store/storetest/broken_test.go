package storetest_test

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// broken is a handle with one mistake: a field that is not nil replaces the method.
type broken struct {
	*twinHandle
	get      func(ctx context.Context, kind, key string) (backend.Record, error)
	list     func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error]
	watch    func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error]
	transact func(ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide) (backend.Record, error)
}

func (b *broken) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if b.get != nil {
		return b.get(ctx, kind, key)
	}
	return b.twinHandle.Get(ctx, kind, key)
}

func (b *broken) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	if b.list != nil {
		return b.list(ctx, kind, q)
	}
	return b.twinHandle.List(ctx, kind, q)
}

func (b *broken) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	if b.watch != nil {
		return b.watch(ctx, kind, q, after)
	}
	return b.twinHandle.Watch(ctx, kind, q, after)
}

func (b *broken) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	time.Sleep(network) // or nothing happens at the same time in a bubble
	if b.transact != nil {
		return b.transact(ctx, kind, key, fences, decide)
	}
	return b.twinHandle.Transact(ctx, kind, key, fences, decide)
}

// network is how long a round trip to the database takes: other calls proceed in the meantime.
const network = time.Millisecond

// swap writes without a lock between the reading and the write. The version is drawn by then.
func (b *broken) swap(
	kind, key string, decide backend.Decide, compare bool, draw func() informer.Version,
) (backend.Record, error) {
	for {
		b.mu.Lock()
		have := b.latest[place(kind, key)].record
		b.mu.Unlock()
		next, err := decide(have)
		if err != nil || next == nil {
			return have, err
		}
		v := draw()
		time.Sleep(network * time.Duration(1+len(key)%3)) // not all take the same time
		b.mu.Lock()
		if !compare || b.latest[place(kind, key)].record.Version == have.Version {
			if v == 0 {
				b.version++
				v = b.version
			}
			defer b.mu.Unlock()
			return b.commitLocked(kind, key, *next, v), nil
		}
		b.mu.Unlock()
	}
}

// stored changes each record before it is written.
func (b *broken) stored(change func(r *backend.Record)) {
	b.transact = func(
		ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
	) (backend.Record, error) {
		return b.twinHandle.Transact(ctx, kind, key, fences, func(have backend.Record) (*backend.Record, error) {
			next, err := decide(have)
			if next != nil {
				r := *next
				next = &r
				change(next)
			}
			return next, err
		})
	}
}

// keyed uses another key in the place of each.
func (b *broken) keyed(key func(string) string) {
	b.get = func(ctx context.Context, kind, k string) (backend.Record, error) {
		return b.twinHandle.Get(ctx, kind, key(k))
	}
	b.transact = func(
		ctx context.Context, kind, k string, fences []backend.Fence, decide backend.Decide,
	) (backend.Record, error) {
		return b.twinHandle.Transact(ctx, kind, key(k), fences, decide)
	}
}

// fenced uses other fences in the place of those that are given.
func (b *broken) fenced(change func(kind string, f *backend.Fence)) {
	b.transact = func(
		ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
	) (backend.Record, error) {
		changed := append([]backend.Fence(nil), fences...)
		for i := range changed {
			change(kind, &changed[i])
		}
		r, err := b.twinHandle.Transact(ctx, kind, key, changed, decide)
		var e *backend.FencedError
		if errors.As(err, &e) {
			for i := range changed {
				if changed[i] == e.Fence {
					e.Fence = fences[i]
				}
			}
		}
		return r, err
	}
}

// reported edits the changes that a watch yields. Those for which it returns false are left out.
func (b *broken) reported(change func(c *backend.Change, err *error) bool) {
	b.watch = func(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
		return func(yield func(backend.Change, error) bool) {
			for c, err := range b.twinHandle.Watch(ctx, kind, q, after) {
				if change(&c, &err) && !yield(c, err) {
					return
				}
			}
		}
	}
}

// paged lists with a version that is asked for with each page.
func (b *broken) paged(version func(page int, ofList informer.Version) informer.Version) {
	b.list = func(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
		return func(yield func(backend.Page, error) bool) {
			all, v := b.snapshot(kind, q)
			n := 0
			pages(ctx, all, yield, func() informer.Version {
				n++
				return version(n, v)
			})
		}
	}
}

// last returns the version of the last commit, after a round trip.
func (b *broken) last() informer.Version {
	time.Sleep(network)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastLocked()
}
