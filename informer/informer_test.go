package informer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/wait"
)

func TestRunRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{Name: "sites"}))
		stop := start(t, in)
		err := in.Run(t.Context())
		require.ErrorIs(t, err, informer.ErrRunning)
		assert.EqualError(t, err, "informer: run sites: already running")

		stop()
		require.ErrorIs(t, in.Run(t.Context()), informer.ErrEnded)
		_, err = in.AddHandler(informer.Handler[string, site]{})
		assert.ErrorIs(t, err, informer.ErrEnded)
	})
}

func TestNothingHappensBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t).add(in)
		assert.Empty(t, r.take())
		assert.Zero(t, in.Version())
		assert.Zero(t, in.LastReceived())
		assert.False(t, in.HasSynced())
		<-r.reg.Remove() // does not wait for a goroutine that was never started
	})
}

func TestRunWithEndedContextListsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(scripted{list: func(context.Context) (informer.List[site], error) {
			t.Error("List was called")
			return informer.List[site]{}, nil
		}}, nameOf, informer.Config{}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.NoError(t, in.Run(ctx))
	})
}

func TestNameDefaultsToObjectType(t *testing.T) {
	assert.Equal(t, "informer_test.site", must(informer.New(newSource(), nameOf, informer.Config{})).Name())
	assert.Equal(t, "sites", must(informer.New(newSource(), nameOf, informer.Config{Name: "sites"})).Name())
}

func TestKeyCallsKeyFunc(t *testing.T) {
	assert.Equal(t, "ulm", must(informer.New(newSource(), nameOf, informer.Config{})).Key(site{Name: "ulm"}))
}

func TestNewPanicsWithoutSourceOrKeyFunc(t *testing.T) {
	assert.Panics(t, func() { must(informer.New(nil, nameOf, informer.Config{})) })
	assert.Panics(t, func() { must(informer.New[string](newSource(), nil, informer.Config{})) })
}

// many puts n objects, of the given revision.
func many(src *informertest.Source[string, site], n, rev int) {
	for i := range n {
		src.Put(site{Name: fmt.Sprint(i), Rev: rev})
	}
}

func TestHandlersRunAfterCacheHoldsWholeList(t *testing.T) {
	const n = 2*informer.MaxBatch + 7
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		many(src, n, 1)
		in := must(informer.New(src, nameOf, informer.Config{}))
		cache.AddIndex(in.Indexer(), func(site) []int { // slow, so that handlers have the time to look
			time.Sleep(time.Millisecond)
			return nil
		})
		var rev, size knob[int]
		rev.set(1)
		size.set(n)
		calls := make(chan struct{}, 2*n)
		check := func() {
			calls <- struct{}{}
			for _, s := range in.Indexer().All() {
				if s.Rev != rev.get() {
					t.Errorf("the cache still holds %v", s)
				}
			}
			assert.Equal(t, size.get(), in.Indexer().Len())
		}
		_, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd:    func(site, bool) { check(); assert.True(t, in.HasSynced()) },
			OnUpdate: func(_, _ site) { check() },
			OnDelete: func(cache.Tombstone[string, site]) { check() },
		})
		require.NoError(t, err)
		start(t, in)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, calls, n)

		src.Fail(errOutage)
		rev.set(2)
		size.set(n - 5)
		many(src, n, 2)
		for i := range 5 {
			src.Delete(fmt.Sprint(i))
		}
		src.Compact()
		src.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, calls, 2*n)
	})
}

func TestHandlerIsNeverAheadOfCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		atLeast := func(s site) {
			cached, ok := in.Get(s.Name)
			assert.True(t, ok)
			assert.GreaterOrEqual(t, cached.Rev, s.Rev)
		}
		_, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd:    func(s site, _ bool) { atLeast(s) },
			OnUpdate: func(_, s site) { atLeast(s) },
		})
		require.NoError(t, err)
		start(t, in)
		for rev := range 1000 {
			src.Put(site{Name: fmt.Sprint(rev % 7), Rev: rev})
		}
		synctest.Wait()
	})
}

func TestBackoffWithoutDelayIsRejected(t *testing.T) {
	const want = ", must be positive if another field of Config.Backoff is set"
	for duration, backoff := range map[string]wait.Backoff{
		"0s":  {Factor: 2, Cap: time.Minute},
		"-1s": {Duration: -time.Second},
	} {
		_, err := informer.New(newSource(), nameOf, informer.Config{Backoff: backoff})
		require.EqualError(t, err, "informer: new informer: Config.Backoff.Duration is "+duration+want)
	}
	_, err := informer.New(newSource(), nameOf, informer.Config{ResyncPeriod: -1, Backoff: wait.Backoff{Duration: 1}})
	require.NoError(t, err)
}

func TestZeroInformerDoesNotCrash(t *testing.T) {
	var in informer.Informer[string, site]
	require.PanicsWithValue(t, "informer: Run called on an Informer that New has not made", func() { _ = in.Run(t.Context()) })
}

func TestInformerIteratesOverCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		for _, name := range []string{"b", "a", "c"} {
			src.Put(site{Name: name})
		}
		in := must(informer.New(src, nameOf, informer.Config{}))
		assert.Empty(t, slices.Collect(in.Keys()))
		start(t, in)
		assert.Equal(t, []string{"b", "a", "c"}, slices.Collect(in.Keys()))
		var names []string
		for name, s := range in.All() {
			assert.Equal(t, name, s.Name)
			names = append(names, name)
		}
		assert.Equal(t, []string{"b", "a", "c"}, names)
		for name := range in.Keys() {
			assert.Equal(t, "b", name)
			break
		}
		assert.Same(t, src, in.Source())
	})
}

func TestErrorsAreLoggedAsWarningsWithStackOfPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", Logger: slog.New(slog.NewTextHandler(&out, nil))}))
		_, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { panic("boom") }})
		require.NoError(t, err)
		start(t, in)()
		assert.Contains(t, out.String(), "level=WARN")
		assert.Contains(t, out.String(), "boom")
		assert.Contains(t, out.String(), "TestErrorsAreLoggedAsWarningsWithStackOfPanic")
	})
}

func TestAddHandlerAfterRunReturnsErrEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{}))
		start(t, in)()
		_, err := in.AddHandler(informer.Handler[string, site]{})
		require.ErrorIs(t, err, informer.ErrEnded)
		require.ErrorIs(t, in.WaitForVersion(t.Context(), 100), informer.ErrEnded)
		require.ErrorIs(t, in.Run(t.Context()), informer.ErrEnded)
	})
}
