package workqueue_test

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/outcome"
	"github.com/setpoint-go/setpoint/workqueue"
)

// The models make much garbage, and little is alive at once.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newQueue() *workqueue.Queue[string] {
	return must(workqueue.New(workqueue.Config[string]{Logger: discard}))
}

var discard = slog.New(slog.DiscardHandler)

// sleep lets time pass, and due timers fire.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// next returns the key that Take returns.
func next[K comparable](q *workqueue.Queue[K], ctx context.Context) (K, error) {
	item, err := q.Take(ctx)
	return item.Key, err
}

// tryGet returns the key that TryTake returns.
func tryGet[K comparable](q *workqueue.Queue[K]) (K, bool) {
	item, ok := q.TryTake()
	return item.Key, ok
}

// takeAll takes all keys that may be dispatched, without Done.
func takeAll(q *workqueue.Queue[string]) (keys []string) {
	for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
		keys = append(keys, k)
	}
	return keys
}

// finishAll takes all ready keys, one after the other.
func finishAll(q *workqueue.Queue[string]) (keys []string) {
	for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
		keys = append(keys, k)
		q.Forget(k)
		q.Done(k)
	}
	return keys
}

func prio(p int) workqueue.AddOptions { return workqueue.AddOptions{Priority: p} }

// byLetter makes the first letter of a key its group.
func byLetter(k string) string { return k[:1] }

// dueAfter waits for the only key of q, and returns when it came.
func dueAfter(t *testing.T, q *workqueue.Queue[string]) time.Duration {
	t.Helper()
	begin := time.Now()
	k, err := next(q, t.Context())
	require.NoError(t, err)
	q.Done(k)
	return time.Since(begin)
}

// fail takes the only key, when it is ready, and fails at it.
func fail(t *testing.T, q *workqueue.Queue[string]) workqueue.Item[string] {
	t.Helper()
	item, err := q.Take(t.Context())
	require.NoError(t, err)
	q.AddRateLimited(item.Key)
	item.Done()
	require.NoError(t, q.CheckInvariants())
	return item
}

// scheduledIn returns in which time the only key is to be added.
func scheduledIn(q *workqueue.Queue[string]) time.Duration { return time.Until(q.Snapshot()[0].Next) }

// The marks of package retry, which is not below this one.
func permanent(err error) error { return &outcome.PermanentError{Err: err} }

func after(err error, d time.Duration) error { return &outcome.AfterError{Err: err, Delay: d} }

func notYet(err error, d time.Duration) error { return &outcome.NotYetError{Err: err, Delay: d} }

// fenced is the error of a write that a later leader has fenced.
type fenced struct{}

func (fenced) Error() string { return "fenced" }

func (fenced) Fenced() bool { return true }

type conflict struct{}

func (conflict) Error() string { return "conflict" }

func (conflict) Conflict() bool { return true }

// text is a log that may be written concurrently.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

func (t *text) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(t, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start runs q until the test ends.
func start[K comparable](t *testing.T, q *workqueue.Queue[K], work func(context.Context, workqueue.Item[K]) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx, 1, work) }()
	return sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
}

// countingLimiter is a limiter of a user, as those of client-go are: it counts for itself, and remembers a key until Forget.
type countingLimiter[K comparable] struct {
	d     time.Duration             // of every failure, unless delay is set
	delay func(n int) time.Duration // of failure n of a key

	mu sync.Mutex
	// mu guards the following.
	counts map[K]int
	whens  int
}

// limiterOf returns a limiter with the same delay for every failure.
func limiterOf[K comparable](d time.Duration) *countingLimiter[K] { return &countingLimiter[K]{d: d} }

func (l *countingLimiter[K]) When(key K) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[K]int{}
	}
	l.whens++
	l.counts[key]++
	if l.delay == nil {
		return l.d
	}
	return l.delay(l.counts[key])
}

func (l *countingLimiter[K]) Forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.counts, key)
}

func (l *countingLimiter[K]) NumRequeues(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[key]
}
