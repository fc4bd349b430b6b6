package bench_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	clientgo "k8s.io/client-go/util/workqueue"
	theirs "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/setpoint-go/setpoint/cache"
	ours "github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
)

// reconciledKeys is the number of keys of a workload.
const reconciledKeys = 100_000

// reconcilers run a controller with the given number of workers on an informer, until reconciled was called for n keys.
var reconcilers = []struct {
	name string
	run  func(in *informer.Informer[string, string], workers, n int, reconciled func(key string))
}{
	{"setpoint", runOurs},
	{"controller-runtime", runTheirs},
	{"channel", runChannel},
}

// BenchmarkControllerOneWorker measures the path of 100,000 objects that exist when a controller starts: from the cache of an informer
// through a handler and a queue to a reconcile that does nothing. All have the same informer. The channel is the floor: the cost of a loop
// without a queue.
func BenchmarkControllerOneWorker(b *testing.B) { benchmarkController(b, 1) }

// BenchmarkControllerFourWorkers is BenchmarkControllerOneWorker with four workers.
func BenchmarkControllerFourWorkers(b *testing.B) { benchmarkController(b, 4) }

// BenchmarkControllerSixteenWorkers is BenchmarkControllerOneWorker with sixteen workers.
func BenchmarkControllerSixteenWorkers(b *testing.B) { benchmarkController(b, 16) }

func benchmarkController(b *testing.B, workers int) {
	for _, impl := range reconcilers {
		b.Run(fmt.Sprintf("%d/%s", reconciledKeys, impl.name), func(b *testing.B) {
			in, stop := runKeys(reconciledKeys)
			defer stop()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				impl.run(in, workers, reconciledKeys, func(string) {})
			}
			runtime.ReadMemStats(&after)
			reconciles := float64(b.N) * reconciledKeys
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/reconciles, "ns/reconcile")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/reconciles, "allocs/reconcile")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func TestEveryControllerReconcilesEachKeyOnce(t *testing.T) {
	for _, impl := range reconcilers {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprint(impl.name, " with ", workers), func(t *testing.T) {
				in, stop := runKeys(1000)
				defer stop()
				var mu sync.Mutex
				times := make(map[string]int)
				impl.run(in, workers, 1000, func(key string) {
					mu.Lock()
					defer mu.Unlock()
					times[key]++
				})
				assert.Len(t, times, 1000)
				for key, n := range times {
					assert.Equal(t, 1, n, "of %s", key)
				}
			})
		}
	}
}

// keySource is a source of strings that never change.
type keySource []string

func (s keySource) List(context.Context) (informer.List[string], error) {
	return informer.List[string]{Items: s, Version: 1}, nil
}

func (s keySource) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[string], error] {
	return func(func(informer.Event[string], error) bool) { <-ctx.Done() }
}

// runKeys returns an informer of n strings, which are their own keys, and a function that stops it. The informer has synced.
func runKeys(n int) (in *informer.Informer[string, string], stop func()) {
	src := make(keySource, n)
	for i := range src {
		src[i] = "namespace/object-" + strconv.Itoa(i)
	}
	var key cache.KeyFunc[string, string] = func(s string) string { return s }
	in = must(informer.New(src, key, informer.Config{Logger: slog.New(slog.DiscardHandler)}))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { succeed(in.Run(ctx)) })
	<-in.Synced()
	return in, func() {
		cancel()
		running.Wait()
	}
}

// countdown returns a function that cancels at the n-th call.
func countdown(n int, cancel func()) func() {
	var done atomic.Int64
	return func() {
		if done.Add(1) == int64(n) {
			cancel()
		}
	}
}

func runOurs(in *informer.Informer[string, string], workers, n int, reconciled func(string)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	count := countdown(n, cancel)
	c, err := ours.New("bench", func(_ context.Context, key string) (ours.Result, error) {
		reconciled(key)
		count()
		return ours.Result{}, nil
	}, ours.Config[string]{Workers: workers}, ours.For(in))
	succeed(err)
	succeed(c.Run(ctx))
}

func runTheirs(in *informer.Informer[string, string], workers, n int, reconciled func(string)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	count := countdown(n, cancel)
	skip := true
	c, err := theirs.NewTypedUnmanaged("bench", theirs.TypedOptions[string]{
		SkipNameValidation:      &skip,
		MaxConcurrentReconciles: workers,
		Reconciler: reconcile.TypedFunc[string](func(_ context.Context, key string) (reconcile.Result, error) {
			reconciled(key)
			count()
			return reconcile.Result{}, nil
		}),
	})
	succeed(err)
	var handler informer.Registration
	succeed(c.Watch(source.TypedFunc[string](func(_ context.Context, q clientgo.TypedRateLimitingInterface[string]) error {
		var err error
		handler, err = in.AddHandler(informer.Handler[string, string]{OnAdd: func(key string, _ bool) { q.Add(key) }})
		return err
	})))
	succeed(c.Start(ctx))
	<-handler.Remove()
}

func runChannel(in *informer.Informer[string, string], workers, n int, reconciled func(string)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	count := countdown(n, cancel)
	keys := make(chan string, 1024)
	handler, err := in.AddHandler(informer.Handler[string, string]{OnAdd: func(key string, _ bool) { keys <- key }})
	succeed(err)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				select {
				case key := <-keys:
					reconciled(key)
					count()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	running.Wait()
	<-handler.Remove()
}
