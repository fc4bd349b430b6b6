package controller_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

var (
	errBoom = errors.New("boom")
	quiet   = slog.New(slog.DiscardHandler)
)

// bubble runs a subtest in a bubble of its own.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// running is a Run that was started by start.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // written before done is closed
}

// start calls run in a goroutine. The test ends it, if it does not do so itself, when it is over.
func start(t testing.TB, run func(context.Context) error) *running {
	t.Helper()
	return startIn(t, t.Context(), run)
}

func startIn(t testing.TB, ctx context.Context, run func(context.Context) error) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = run(ctx)
	}()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// stop cancels and waits.
func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// ended tells whether Run has returned.
func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// assertNoGoroutines fails the test if a goroutine of the library is left in its bubble. It looks at their stacks, because
// the number of goroutines still counts some that have just ended.
func assertNoGoroutines(t *testing.T) {
	t.Helper()
	synctest.Wait()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, pkg := range []string{"controller", "informer", "leaderelect", "workqueue", "wait"} {
		assert.NotContains(t, string(stacks), "github.com/setpoint-go/setpoint/"+pkg+".")
	}
}

// log collects what happened, in order.
type log[E any] struct {
	mu sync.Mutex
	// mu guards the following.
	entries []E
}

func (l *log[E]) add(e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

func (l *log[E]) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// all returns what was added and not taken.
func (l *log[E]) all() []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// take returns what was added since the last take.
func (l *log[E]) take() []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.entries
	l.entries = nil
	return taken
}

// newController returns a controller that reports to the log.
func newController(
	t testing.TB, cfg controller.Config[string], f func(context.Context, string) (controller.Result, error),
	inputs ...controller.Input[string],
) (*controller.Controller[string], *log[controller.Report[string]]) {
	t.Helper()
	reports := &log[controller.Report[string]]{}
	cfg.Hooks.Reconciled = reports.add
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

// leases is a LeaseStore that can be cut off.
type leases struct {
	*memlease.Store
	cut atomic.Bool
}

func newLeases() *leases { return &leases{Store: memlease.New()} }

func (s *leases) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if s.cut.Load() {
		return leaderelect.Entry{}, errBoom
	}
	return s.Store.Get(ctx, key)
}

func (s *leases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if s.cut.Load() {
		return leaderelect.Entry{}, errBoom
	}
	return s.Store.Update(ctx, e)
}

// election returns the configuration of an election in the store.
func election(s leaderelect.LeaseStore) *leaderelect.Config {
	return &leaderelect.Config{Store: s, Key: "lock", Identity: "me", Logger: quiet}
}

// lead runs work as the leader, for each term.
func lead(t *testing.T, s leaderelect.LeaseStore, work func(ctx context.Context) error) *running {
	t.Helper()
	cfg := *election(s)
	cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error { return work(ctx) }
	elector, err := leaderelect.New(cfg)
	require.NoError(t, err)
	return start(t, elector.Run)
}

// textLogger writes to out, without times.
func textLogger(out io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// assertNoWorkers fails the test if a goroutine of a controller is left in its bubble.
func assertNoWorkers(t *testing.T) {
	t.Helper()
	synctest.Wait()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	head, _, _ := strings.Cut(string(stacks), "\n") // of this goroutine, and so its bubble: "goroutine 7 [running, synctest bubble 3]:"
	bubble := head[strings.Index(head, "synctest bubble"):]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if head, _, _ := strings.Cut(stack, "\n"); !strings.HasSuffix(head, bubble) {
			continue // of another test
		}
		assert.NotContains(t, stack, "github.com/setpoint-go/setpoint/controller.")
		assert.NotContains(t, stack, "github.com/setpoint-go/setpoint/workqueue.")
	}
}

// logText is what was logged.
type logText struct {
	mu sync.Mutex
	// mu guards the following.
	text []byte
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
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
