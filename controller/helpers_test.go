package controller_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/stretchr/testify/require"
)

var (
	errBoom = errors.New("boom")
	quiet   = slog.New(slog.DiscardHandler)
)

// effort returns how often a model runs: few times, or all if CONTROLLER_MODEL is full.
func effort(few, all int) int {
	if os.Getenv("CONTROLLER_MODEL") == "full" {
		return all
	}
	return few
}

// bubble runs a subtest in a bubble of its own.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// assertNoGoroutines fails the test if a goroutine of the library is left in its bubble.
func assertNoGoroutines(t *testing.T) {
	t.Helper()
	looptest.NoGoroutines(t, "controller", "informer", "leaderelect", "workqueue", "wait")
}

// newController returns a controller that reports to the log.
func newController(
	t testing.TB, cfg controller.Config[string], f func(context.Context, string) (controller.Result, error),
	inputs ...controller.Input[string],
) (*controller.Controller[string], *looptest.Log[controller.Report[string]]) {
	t.Helper()
	reports := &looptest.Log[controller.Report[string]]{}
	cfg.Hooks.Reconciled = reports.Add
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	c, err := controller.New("test", f, cfg, inputs...)
	require.NoError(t, err)
	return c, reports
}

// noop is a reconcile with nothing to do.
func noop(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }

// keysOf returns the keys of the reports.
func keysOf(reports []controller.Report[string]) []string {
	var keys []string
	for _, r := range reports {
		keys = append(keys, r.Key)
	}
	return keys
}

// limiter gives every key the same delay, and counts.
type limiter struct {
	delay   time.Duration
	whens   atomic.Int64
	forgets atomic.Int64
}

func (l *limiter) When(string) time.Duration { l.whens.Add(1); return l.delay }
func (l *limiter) Forget(string)             { l.forgets.Add(1) }
func (l *limiter) NumRequeues(string) int    { return 0 }

// newLeases returns a LeaseStore that [cut] cuts off.
func newLeases() *memlease.Store { return memlease.New() }

// cut makes the calls of s fail, or ends that.
func cut(s *memlease.Store, off bool) {
	faults := memlease.Faults{}
	if off {
		faults.Before = func(context.Context, memlease.Call) error { return errBoom }
	}
	s.Inject(faults)
}

// election returns the configuration of an election in the store.
func election(s leaderelect.LeaseStore) *leaderelect.Config {
	return &leaderelect.Config{Store: s, Key: "lock", Identity: "me", Logger: quiet}
}

// lead runs work as the leader, for each term.
func lead(t *testing.T, s leaderelect.LeaseStore, work func(ctx context.Context) error) *looptest.Running {
	t.Helper()
	cfg := *election(s)
	cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error { return work(ctx) }
	elector, err := leaderelect.New(cfg)
	require.NoError(t, err)
	return looptest.Start(t, elector.Run)
}

// assertNoWorkers fails the test if a goroutine of a controller is left in its bubble.
func assertNoWorkers(t *testing.T) {
	t.Helper()
	looptest.NoGoroutines(t, "controller", "workqueue")
}

// next reconciles the first key that is ready and need not wait for anything.
func next[K comparable](ctx context.Context, c *controller.Controller[K]) (report controller.Report[K], ok bool) {
	for _, key := range c.Ready() {
		if report, ok = c.Step(ctx, key); ok {
			break
		}
	}
	return report, ok
}

// attemptOf returns the number of the attempt that ctx belongs to.
func attemptOf(ctx context.Context) int {
	info, _ := controller.FromContext(ctx)
	return info.Attempt
}

// object is what the sources of the tests hold.
type object struct {
	Key   string
	Owner string
	Value int
}

func keyOf(o object) string { return o.Key }

// pure returns the function for a Watches that f is, which needs no context and does not fail.
func pure(f func(o object) []string) func(context.Context, object) ([]string, error) {
	return func(_ context.Context, o object) ([]string, error) { return f(o), nil }
}

// slowly maps an object to its key in a second.
func slowly(_ context.Context, o object) ([]string, error) {
	time.Sleep(time.Second)
	return []string{o.Key}, nil
}

// source is a ListWatcher in memory.
type source struct {
	hold chan struct{} // if not nil, List waits until it is closed

	mu sync.Mutex
	// mu guards the following.
	objects map[string]object
	unread  map[string]bool // exist, and cannot be read
	missing []error         // of each list
	events  []informer.Event[object]
	changed chan struct{} // closed, and replaced, by each change
}

func newSource(objects ...object) *source {
	s := &source{objects: map[string]object{}, changed: make(chan struct{})}
	for _, o := range objects {
		s.set(o)
	}
	return s
}

func (s *source) set(o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := informer.Added
	if _, ok := s.objects[o.Key]; ok {
		what = informer.Modified
	}
	s.objects[o.Key] = o
	delete(s.unread, o.Key)
	s.appendLocked(what, o)
}

func (s *source) delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	if !ok {
		o = object{Key: key} // unread
	}
	delete(s.objects, key)
	delete(s.unread, key)
	s.appendLocked(informer.Deleted, o)
}

func (s *source) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.objects[key]
	return ok
}

func (s *source) appendLocked(what informer.EventType, o object) {
	s.events = append(s.events, informer.Event[object]{Type: what, Object: o, Version: informer.Version(len(s.events) + 1)})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *source) List(ctx context.Context) (informer.List[object], error) {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return informer.List[object]{}, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := informer.List[object]{Version: informer.Version(len(s.events))}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		list.Items = append(list.Items, s.objects[key])
	}
	list.Missing = s.missing
	for _, key := range slices.Sorted(maps.Keys(s.unread)) {
		list.Unread = append(list.Unread, informer.Unread[object]{Object: object{Key: key}})
	}
	return list, nil
}

func (s *source) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[object], error] {
	return func(yield func(informer.Event[object], error) bool) {
		for {
			s.mu.Lock()
			events, changed := s.events[after:], s.changed
			s.mu.Unlock()
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Version
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(informer.Event[object]{}, context.Cause(ctx))
				return
			}
		}
	}
}

func newInformer(name string, s *source) *informer.Informer[string, object] {
	return must(informer.New(s, keyOf, informer.Config{Name: name}))
}

func (s *source) version() informer.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return informer.Version(len(s.events))
}

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestMain(m *testing.M) { looptest.Main(m) }
