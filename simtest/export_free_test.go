package simtest

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// free is a run that no plan hits and nobody drives: calls go one by one as they come, and watches hear everything at once.
type free struct {
	run *run

	turn sync.Mutex // held during a call: in a simulation, only one goroutine acts
	mu   sync.Mutex
	// mu guards the following.
	views  []*view
	forgot informer.Version // a watch from before it expires
}

// Handle is the database as a process of a free run sees it.
type Handle struct {
	*gate
	f *free
}

// Handles returns the databases of n processes of one run without faults, and a function that makes watches from before the present
// expire.
func Handles(n int) (handles []backend.Backend, expire func(string) error) {
	f := &free{run: &run{
		db: newDatabase(), began: time.Now(), mode: stepMode, events: make(map[string]int), wrote: make(map[string]informer.Version),
		wake: make(chan struct{}, 1),
	}}
	for range n {
		s := &system{System: System{Name: "s"}, run: f.run, counts: make(map[position]int)}
		p := &process{run: f.run, system: s, name: "s.1"}
		handles = append(handles, &Handle{(*gate)(p), f})
	}
	return handles, func(string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forgot = f.run.db.version()
		return nil
	}
}

func (h *Handle) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	h.f.turn.Lock()
	defer h.f.turn.Unlock()
	return h.gate.Get(ctx, kind, key)
}

func (h *Handle) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	h.f.turn.Lock()
	defer h.f.turn.Unlock()
	defer h.f.tell()
	return h.gate.Transact(ctx, kind, key, fences, decide)
}

// Watch has a view of its own, as the watch of an informer in run mode.
func (h *Handle) Watch(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		v := &view{p: (*process)(h.gate), version: func() informer.Version { return after }, wake: make(chan struct{}, 1)}
		h.f.mu.Lock()
		v.allow, v.expire = v.limitLocked(), after < h.f.forgot
		h.f.views = append(h.f.views, v)
		h.f.mu.Unlock()
		h.gate.Watch(context.WithValue(ctx, viewKey{}, v), kind, q, after)(yield)
	}
}

// tell has every watch hear what there is.
func (f *free) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.views {
		v.mu.Lock()
		v.allow = v.limitLocked()
		v.mu.Unlock()
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
}
