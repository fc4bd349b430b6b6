package simtest

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// free is a run without a plan and a driver: calls run one by one as they come, and watches receive everything at once.
type free struct {
	run *run

	turn sync.Mutex // held during a call: in a simulation, only one goroutine acts
	mu   sync.Mutex
	// mu guards the following.
	inputs []*input
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
	f := &free{run: newRun(World{Systems: []System{{Name: "s"}}}, nil, nil)}
	for range n {
		handles = append(handles, &Handle{processBackend{f.process()}, f})
	}
	return handles, func(string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forgot = f.run.db.version()
		return nil
	}
}

// process returns a process whose calls take no turns.
func (f *free) process() *process {
	return &process{run: f.run, program: f.run.programs[0], name: "s.1", driver: freeDriver{}}
}

type freeDriver struct{ processDriver }

func (freeDriver) takesTurns(context.Context) bool { return false }

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
	defer h.f.deliver()
	return h.Backend.Transact(ctx, kind, key, fences, decide)
}

// Watch has an input of its own, as the watch of an informer in run mode.
func (h *Handle) Watch(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		in, err := newInput(h.f.process(), at{version: after})
		if err != nil {
			yield(backend.Change{}, err)
			return
		}
		h.f.mu.Lock()
		expired := after < h.f.forgot
		in.beginList(kind)
		h.f.inputs = append(h.f.inputs, in)
		h.f.mu.Unlock()
		if expired {
			yield(backend.Change{}, fmt.Errorf("%w: the test says so", backend.ErrExpired))
			return
		}
		h.Backend.Watch(in.context(ctx), kind, q, after)(yield)
	}
}

// at is an informer that has come to a version.
type at struct {
	controller.Informer
	version informer.Version
}

func (v at) Version() informer.Version { return v.version }

// deliver lets every watch receive what there is.
func (f *free) deliver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.inputs {
		in.beginList(in.kind())
		in.resume()
	}
}
