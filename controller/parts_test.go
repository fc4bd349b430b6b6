package controller_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/stretchr/testify/require"
)

// fakeSource is a source that notes when it starts and stops.
type fakeSource struct {
	name   string
	synced chan struct{}
	once   sync.Once // closes synced
	hold   bool      // Run does not close synced
	events *log[string]
	run    func(ctx context.Context) error // what it does; nil waits for ctx
}

func newFakeSource(name string, events *log[string]) *fakeSource {
	return &fakeSource{name: name, synced: make(chan struct{}), events: events}
}

func (s *fakeSource) Name() string            { return s.name }
func (s *fakeSource) Synced() <-chan struct{} { return s.synced }

func (s *fakeSource) Run(ctx context.Context) error {
	s.events.add(s.name + " starts")
	defer s.events.add(s.name + " stops")
	if !s.hold {
		s.once.Do(func() { close(s.synced) })
	}
	if s.run != nil {
		return s.run(ctx)
	}
	<-ctx.Done()
	return nil
}

// fakeRunner is a controller that notes when it starts and stops, and drains for a second if it may.
type fakeRunner struct {
	name   string
	events *log[string]
	run    func(ctx context.Context) error // what it does; nil waits for ctx and drains
}

func (r *fakeRunner) Name() string { return r.name }

func (r *fakeRunner) Run(ctx context.Context) error {
	r.events.add(r.name + " starts")
	defer r.events.add(r.name + " stops")
	if r.run != nil {
		return r.run(ctx)
	}
	<-ctx.Done()
	if l, ok := leaderelect.FromContext(ctx); !ok || l.Err() == nil {
		time.Sleep(time.Second)
		r.events.add(r.name + " drained")
	}
	return nil
}

// watchedLeases notes each write while notes is set.
type watchedLeases struct {
	*leases
	events *log[string]
	notes  atomic.Bool
}

func (s *watchedLeases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if s.notes.Load() {
		s.events.add("lease is written")
	}
	return s.leases.Update(ctx, e)
}

// stage is a manager with a source, a controller and a stop hook that note what happens.
type stage struct {
	events     *log[string]
	source     *fakeSource
	controller *fakeRunner
	hook       func(ctx context.Context) error // called by the stop hook, if not nil
	manager    *controller.Manager
}

func newStage(t *testing.T, cfg controller.ManagerConfig) *stage {
	t.Helper()
	cfg.Logger = quiet
	m, err := controller.NewManager(cfg)
	require.NoError(t, err)
	events := &log[string]{}
	s := &stage{events: events, source: newFakeSource("source", events), controller: &fakeRunner{name: "controller", events: events}, manager: m}
	m.AddSource(s.source)
	m.AddController(s.controller)
	m.AddStopHook("hook", func(ctx context.Context) error {
		events.add("hook")
		if s.hook != nil {
			return s.hook(ctx)
		}
		return nil
	})
	return s
}

// The stages of a manager that starts and stops as it should.
var (
	started = []string{"source starts", "controller starts"}
	stopped = []string{"controller drained", "controller stops", "hook", "source stops"}
	lost    = []string{"controller stops"}
)
