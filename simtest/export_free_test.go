package simtest

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
	"github.com/setpoint-go/setpoint/store/backend"
)

// free is a run without a plan and a driver: calls run one by one as they come, and watches receive everything at once.
type free struct {
	run *sim.Run

	turn sync.Mutex // held during a call: in a simulation, only one goroutine acts
	mu   sync.Mutex
	// mu guards the following.
	views  []*view.View
	forgot informer.Version // a watch from before it expires
}

// Handle is the database as a process of a free run sees it.
type Handle struct {
	backend.Backend
	f *free
}

// Handles returns the databases of n processes of one run without faults, and a function that makes watches from before the present
// expire.
func Handles(n int) (handles []backend.Backend, expire func(string) error) {
	f := &free{run: sim.New(sim.World{Systems: []sim.System{{Name: "s"}}}, nil)}
	for range n {
		handles = append(handles, &Handle{f.run.Program("s").NewProcess(newFreeLife).Backend(), f})
	}
	return handles, func(string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forgot = f.run.Version()
		return nil
	}
}

// freeLife is the life of a process without a driver.
type freeLife struct{ sim.Life }

func newFreeLife(*sim.Process) sim.Life { return freeLife{} }

func (freeLife) TakesTurns(context.Context) bool { return false }

func (h *Handle) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	h.f.turn.Lock()
	defer h.f.turn.Unlock()
	return h.Backend.Get(ctx, kind, key)
}

func (h *Handle) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	h.f.turn.Lock()
	defer h.f.turn.Unlock()
	defer h.f.tell()
	return h.Backend.Transact(ctx, kind, key, fences, decide)
}

// Watch has a view of its own, as the watch of an informer in run mode.
func (h *Handle) Watch(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		v, err := view.New(at(after), "s.1", h.f.run)
		if err != nil {
			yield(backend.Change{}, err)
			return
		}
		h.f.mu.Lock()
		expired := after < h.f.forgot
		v.Lists(kind)
		h.f.views = append(h.f.views, v)
		h.f.mu.Unlock()
		if expired {
			yield(backend.Change{}, fmt.Errorf("%w: the test says so", backend.ErrExpired))
			return
		}
		h.Backend.Watch(v.In(ctx), kind, q, after)(yield)
	}
}

// at is an informer that has come to a version.
type at informer.Version

func (v at) Version() informer.Version { return informer.Version(v) }

// tell has every watch hear what there is.
func (f *free) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.views {
		v.Lists(v.Kind())
		v.Hear()
	}
}
