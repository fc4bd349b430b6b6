package informer_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// versioned is a source that reports its latest version. Until fails is 0, it fails instead.
type versioned struct {
	*informertest.Source[string, site]
	slow time.Duration // until a read returns

	mu sync.Mutex
	// mu guards the following.
	fails, reads int
}

func (v *versioned) LatestVersion(context.Context) (informer.Version, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	if v.fails > 0 {
		v.fails--
		return 0, errors.New("no route to host")
	}
	latest := v.Version()
	time.Sleep(v.slow)
	return latest, nil
}

func newVersioned() *versioned {
	return &versioned{Source: informertest.NewSource(func(s site) string { return s.Name })}
}

// catchUp calls CatchUp, and returns a channel for its error.
func catchUp(ctx context.Context, in *informer.Informer[string, site]) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- in.CatchUp(ctx) }()
	synctest.Wait()
	return ended
}

func TestCatchUpWaitsForLatestVersion(t *testing.T) {
	for name, derive := range map[string]func(informer.ListWatcher[site]) informer.ListWatcher[site]{
		"as it is": func(src informer.ListWatcher[site]) informer.ListWatcher[site] { return src },
		"filtered": func(src informer.ListWatcher[site]) informer.ListWatcher[site] {
			return informer.Filter(src, func(site) bool { return true })
		},
		"mapped": func(src informer.ListWatcher[site]) informer.ListWatcher[site] {
			return informer.Map(src, func(s site) site { return s })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newVersioned()
				in := must(informer.New(derive(src), src.Key, informer.Config{}))
				start(t, in)
				synctest.Wait()
				if err := in.CatchUp(t.Context()); err != nil {
					t.Fatal(err)
				}
				src.Hold()
				src.Put(site{Name: "ulm"})
				first, second := catchUp(t.Context(), in), catchUp(t.Context(), in)
				time.Sleep(time.Minute)
				if len(first)+len(second) > 0 {
					t.Error("CatchUp has returned before the cache has the object")
				}
				src.Release()
				if err := errors.Join(<-first, <-second); err != nil {
					t.Error(err)
				}
				if _, ok := in.Get("ulm"); !ok {
					t.Error("the cache does not have the object")
				}
			})
		})
	}
}

// A read that is in progress may have missed what was committed before the second call.
func TestCatchUpNeedsReadThatBeginsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newVersioned()
		src.slow = time.Second
		in := must(informer.New(informer.ListWatcher[site](src), src.Key, informer.Config{}))
		start(t, in)
		first := catchUp(t.Context(), in)
		src.Hold()
		src.Put(site{Name: "ulm"})
		second := catchUp(t.Context(), in)
		time.Sleep(time.Minute)
		if len(first) == 0 {
			t.Error("the first call waits for an object that was created after it")
		}
		if len(second) > 0 {
			t.Error("the second call has returned before the cache has the object")
		}
		src.Release()
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
	})
}

func TestCatchUpWaitsUntilListIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newVersioned()
		in := must(informer.New(informer.ListWatcher[site](src.Source), src.Key, informer.Config{OnError: func(error) {}}))
		var broken atomic.Bool
		cache.AddIndex(in.Indexer(), func(s site) []string {
			if broken.Load() {
				panic("this object cannot be indexed")
			}
			return nil
		})
		start(t, in)
		broken.Store(true)
		src.Put(site{Name: "ulm"})
		caught := catchUp(t.Context(), in)
		time.Sleep(time.Hour)
		if len(caught) > 0 {
			t.Error("CatchUp has returned, and the cache does not have the object")
		}
		broken.Store(false)
		if err := <-caught; err != nil {
			t.Error(err)
		}
		if _, ok := in.Get("ulm"); !ok {
			t.Error("the cache does not have the object")
		}
	})
}

// A source that cannot report its version lists once for all calls that are waiting.
func TestCatchUpListsSourceWithoutVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newVersioned()
		spy := &spy{ListWatcher: src.Source, slow: time.Second}
		in := must(informer.New(informer.ListWatcher[site](spy), src.Key, informer.Config{}))
		start(t, in)
		synctest.Wait()
		src.Hold()
		src.Put(site{Name: "ulm"})
		var all []<-chan error
		for range 64 {
			ended := make(chan error, 1)
			go func() { ended <- in.CatchUp(t.Context()) }()
			all = append(all, ended)
		}
		for _, ended := range all {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if _, ok := in.Get("ulm"); !ok {
			t.Error("the cache does not have the object")
		}
		if n := spy.got().lists; n > 4 {
			t.Errorf("%d lists, want the first one and a few for 64 calls", n)
		}
		src.Release()
	})
}

func TestCatchUpRepeatsReadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newVersioned()
		var reported []error
		in := must(informer.New(informer.ListWatcher[site](src), src.Key, informer.Config{
			OnError: func(err error) { reported = append(reported, err) },
		}))
		start(t, in)
		synctest.Wait()
		src.fails = 2
		if err := in.CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
		if src.reads != 3 || len(reported) != 2 {
			t.Errorf("%d reads and %d errors, want 3 and 2", src.reads, len(reported))
		}

		src.fails = 1000
		why := errors.New("why")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer cancel()
		if err := in.CatchUp(ctx); !errors.Is(err, why) {
			t.Errorf("CatchUp = %v, want %v", err, why)
		}
	})
}

func TestCatchUpEndsWithInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newVersioned()
		in := must(informer.New(informer.ListWatcher[site](src), src.Key, informer.Config{}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		synctest.Wait()
		src.Hold()
		src.Put(site{Name: "ulm"})
		caught := catchUp(t.Context(), in)
		cancel()
		<-ended
		if err := <-caught; !errors.Is(err, informer.ErrEnded) {
			t.Errorf("CatchUp = %v, want %v", err, informer.ErrEnded)
		}
	})
}

// recovering is a source whose first watch fails, and whose next ones yield something only after a while.
type recovering struct {
	*versioned
	watches atomic.Int64
}

func (r *recovering) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return func(yield func(informer.Event[site], error) bool) {
		if r.watches.Add(1) == 1 {
			yield(informer.Event[site]{}, errors.New("no route to host"))
			return
		}
		time.Sleep(100 * time.Millisecond)
		for e, err := range r.versioned.Watch(ctx, after) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Callers that call CatchUp again and again do not keep the informer from recovering.
func TestCatchUpLeavesAttemptInProgressAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &recovering{versioned: newVersioned()}
		in := must(informer.New(informer.ListWatcher[site](src), src.Key, informer.Config{OnError: func(error) {}}))
		start(t, in)
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for ctx.Err() == nil {
				limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				_ = in.CatchUp(limited)
				<-limited.Done()
				cancel()
			}
		}()
		src.Put(site{Name: "new"})
		time.Sleep(time.Second)
		if _, ok := in.Get("new"); !ok {
			t.Errorf("the cache has not caught up after %d watches", src.watches.Load())
		}
	})
}
