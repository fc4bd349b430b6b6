package manager_test

import (
	"bytes"
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
)

// fakeInformer is an informer that notes when it starts and stops.
type fakeInformer struct {
	name   string
	synced chan struct{}
	once   sync.Once // closes synced
	hold   bool      // Run does not close synced
	events *looptest.Log[string]
	run    func(ctx context.Context) error // what it does; nil waits for ctx
}

func newFakeInformer(name string, events *looptest.Log[string]) *fakeInformer {
	return &fakeInformer{name: name, synced: make(chan struct{}), events: events}
}

func (s *fakeInformer) Name() string            { return s.name }
func (s *fakeInformer) Synced() <-chan struct{} { return s.synced }

func (s *fakeInformer) Run(ctx context.Context) error {
	s.events.Add(s.name + " starts")
	defer s.events.Add(s.name + " stops")
	if !s.hold {
		s.once.Do(func() { close(s.synced) })
	}
	if s.run != nil {
		return s.run(ctx)
	}
	<-ctx.Done()
	return nil
}

// leases is how one replica reaches a store of leases.
type leases struct {
	*memlease.Store
	off     atomic.Bool              // it does not reach them
	updates func(*leaderelect.Entry) // called before each Update, even if off; nil is nothing
}

func (l *leases) reach() error {
	if l.off.Load() {
		return errBoom
	}
	return nil
}

func (l *leases) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if err := l.reach(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.Store.Get(ctx, key)
}

func (l *leases) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := l.reach(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.Store.Create(ctx, e)
}

func (l *leases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if l.updates != nil {
		l.updates(&e)
	}
	if err := l.reach(); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.Store.Update(ctx, e)
}

func (l *leases) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	if err := l.reach(); err != nil {
		return nil, err
	}
	return l.Store.List(ctx, prefix)
}

// releases reports whether a write releases a lease.
func releases(e *leaderelect.Entry) bool { return bytes.Contains(e.Value, []byte(`"holder":""`)) }

// fakePart is a part that notes when it starts and stops, and drains for a second if it may.
type fakePart struct {
	name      string
	informers []controller.Informer
	events    *looptest.Log[string]
	run       func(ctx context.Context) error // what it does; nil waits for ctx and drains
}

func (r *fakePart) Name() string                     { return r.name }
func (r *fakePart) Informers() []controller.Informer { return r.informers }

func (r *fakePart) Run(ctx context.Context) error {
	r.events.Add(r.name + " starts")
	defer r.events.Add(r.name + " stops")
	if r.run != nil {
		return r.run(ctx)
	}
	<-ctx.Done()
	if l, ok := leaderelect.FromContext(ctx); !ok || l.Err() == nil {
		time.Sleep(time.Second)
		r.events.Add(r.name + " drained")
	}
	return nil
}

func newFakePart(name string, events *looptest.Log[string], informers ...controller.Informer) *fakePart {
	return &fakePart{name: name, events: events, informers: informers}
}

// watch makes leases note each write among the events, while notes is set.
func (s *fakeStage) watch(l *leases) (notes *atomic.Bool) {
	notes = new(atomic.Bool)
	l.updates = func(*leaderelect.Entry) {
		if notes.Load() {
			s.events.Add("lease is written")
		}
	}
	return notes
}

// fakeStage is a manager with an informer and a part that note what happens, as BeforeRelease does.
type fakeStage struct {
	events   *looptest.Log[string]
	informer *fakeInformer
	part     *fakePart
	hook     func(ctx context.Context) error // called by BeforeRelease, if not nil
	manager  *manager.Manager
}

func newStage(t *testing.T, cfg manager.Config) *fakeStage {
	t.Helper()
	events := &looptest.Log[string]{}
	s := &fakeStage{events: events, informer: newFakeInformer("informer", events), part: newFakePart("part", events)}
	cfg.Logger = cmp.Or(cfg.Logger, quiet)
	cfg.BeforeRelease = func(ctx context.Context) error {
		events.Add("hook")
		if s.hook != nil {
			return s.hook(ctx)
		}
		return nil
	}
	var err error
	s.manager, err = manager.New(cfg, s.informer, s.part)
	require.NoError(t, err)
	return s
}

// start runs the manager. It returns when nothing moves.
func (s *fakeStage) start(t *testing.T) *looptest.Running {
	t.Helper()
	r := looptest.Start(t, s.manager.Run)
	synctest.Wait()
	return r
}

// inStage runs a test in a bubble with a fakeStage, and subStage a subtest.
func inStage(t *testing.T, cfg manager.Config, f func(t *testing.T, s *fakeStage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newStage(t, cfg)) })
}

func subStage(t *testing.T, name string, cfg manager.Config, f func(t *testing.T, s *fakeStage)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inStage(t, cfg, f) })
}

// The stages of a manager that starts and stops as it should.
var (
	started = []string{"informer starts", "part starts"}
	stopped = []string{"part drained", "part stops", "hook", "informer stops"}
	lost    = []string{"part stops"}
)
