package informer_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

func TestSourceWithoutBookmarksIsStaleOnlyWithoutWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		sitetest.Start(t, in)
		time.Sleep(24 * time.Hour)
		assert.False(t, in.Stale(0), "the watch is open")
		assert.Equal(t, 24*time.Hour, time.Since(in.LastHeard()))

		src.Fail(errOutage)
		synctest.Wait()
		time.Sleep(time.Minute)
		assert.False(t, in.Stale(time.Minute), "silence counts from the end of the watch")
		time.Sleep(time.Nanosecond)
		assert.True(t, in.Stale(time.Minute))
		assert.False(t, in.Stale(time.Hour))

		src.Fail(nil)
		time.Sleep(time.Minute) // until after the backoff
		assert.False(t, in.Stale(0), "a watch is open again, and has had nothing to report")
	})
}

func TestShortWatchesDoNotEndSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				time.Sleep(time.Second - 1)
				yield(informer.Event[site]{}, errOutage)
			}
		}}, nameOf, informer.Config{Backoff: exact, OnError: func(error) {}}))
		sitetest.Start(t, in)
		time.Sleep(100*time.Second + time.Second/2)
		for range 200 { // whether a watch is open or not
			if time.Sleep(100 * time.Millisecond); in.Stats().Watching {
				continue
			}
			assert.True(t, in.Stale(100*time.Second))
		}
	})
}

func TestInformerIteratesOverCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		for _, name := range []string{"b", "a", "c"} {
			src.Put(site{Name: name})
		}
		in := must(informer.New(src, nameOf, informer.Config{}))
		assert.Empty(t, slices.Collect(in.Keys()))
		sitetest.Start(t, in)
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

func TestWaitForSyncOfNilPanics(t *testing.T) {
	in := must(informer.New(newSource(), nameOf, informer.Config{}))
	var none *informer.Informer[string, site]
	for _, bad := range []informer.Syncer{nil, none} {
		assert.PanicsWithValue(t, "informer: WaitForSync called with nil as argument 3", func() {
			_ = informer.WaitForSync(t.Context(), in, bad)
		})
	}
}

func TestErrorsAreLoggedAsWarningsWithStackOfPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", Logger: slog.New(slog.NewTextHandler(&out, nil))}))
		_, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { panic("boom") }})
		require.NoError(t, err)
		sitetest.Start(t, in)()
		assert.Contains(t, out.String(), "level=WARN")
		assert.Contains(t, out.String(), "boom")
		assert.Contains(t, out.String(), "TestErrorsAreLoggedAsWarningsWithStackOfPanic")
	})
}

func TestWaitIdleEndsBeforeHandlerJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{}))
		reg, err := in.AddHandler(informer.Handler[string, site]{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errOutage)
		defer cancel()
		require.ErrorIs(t, reg.WaitIdle(ctx), errOutage)
		reg.Remove()
		require.ErrorIs(t, reg.WaitIdle(t.Context()), informer.ErrEnded)
	})
}

func TestRunEndsWhileSourceWaitsForCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := func(_ context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				for v := after + 1; yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "a"}, Version: v}, nil); v++ {
				}
			}
		}
		in := must(informer.New(scripted{list: empty, watch: endless}, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		held := make(chan struct{})
		in.OnVersion(func(informer.Version) { <-held })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- in.Run(ctx) }() // ends with cancel; waited for below
		synctest.Wait()
		assert.Equal(t, informer.MaxBatch, in.Stats().Pending)
		cancel()
		close(held)
		require.NoError(t, <-ended)
	})
}

func TestKeyUnequalToItselfFailsList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs sitetest.Errors
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, func(site) float64 { return math.NaN() }, informer.Config{Name: "sites", OnError: errs.Add}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.NoError(t, in.Run(ctx))
		got := errs.Take()
		require.Len(t, got, 1)
		assert.ErrorContains(t, got[0], "informer: list sites: panic: ")
		assert.ErrorContains(t, got[0], "a key is not equal to itself")
		assert.False(t, in.HasSynced())
	})
}

func TestStepsOfZeroInformerPanic(t *testing.T) {
	assert.PanicsWithValue(t, "informer: Steps called on an Informer that New has not made", func() {
		_, _ = new(informer.Informer[string, site]).Steps(t.Context())
	})
}

func TestAddHandlerAfterRunReturnsErrEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{}))
		sitetest.Start(t, in)()
		_, err := in.AddHandler(informer.Handler[string, site]{})
		require.ErrorIs(t, err, informer.ErrEnded)
		require.ErrorIs(t, in.WaitForVersion(t.Context(), 100), informer.ErrEnded)
		require.ErrorIs(t, in.Run(t.Context()), informer.ErrEnded)
	})
}
