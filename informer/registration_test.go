package informer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

func TestRemoveWaitsForCallbackAndDropsPendingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		for i := range 10 {
			src.Put(site{Name: fmt.Sprint(i)})
		}
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		sitetest.Start(t, in)
		var removed atomic.Int32
		var wg sync.WaitGroup
		for range 3 { // each of them waits
			wg.Go(func() { <-r.reg.Remove(); removed.Add(1) })
		}
		synctest.Wait()
		assert.Zero(t, removed.Load(), "a callback runs")
		assert.Empty(t, informer.Waiting(in))
		close(r.gate)
		wg.Wait()
		src.Put(site{Name: "new"})
		assert.Equal(t, []string{"add 0.0 initial=true"}, r.take())
		assert.False(t, r.reg.HasSynced())
		<-r.reg.Remove() // does no harm
	})
}

func TestHandlerRemovedBeforeJoiningIsNeverCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		r, other := newRecorder(t).add(in), newRecorder(t).add(in)
		r.reg.Remove()
		assert.Equal(t, 1, informer.Joining(in))
		sitetest.Start(t, in)
		assert.Empty(t, r.take())
		assert.Len(t, other.take(), 1)
		late := newRecorder(t).add(in)
		late.reg.Remove()
		calls := late.take() // it may have joined
		src.Put(site{Name: "b"})
		assert.Empty(t, late.take(), calls)
	})
}

func TestCallbackMayRemoveAndAddOtherHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		victim, added := newRecorder(t).add(in), newRecorder(t)
		_, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) {
			<-victim.reg.Remove()
			added.add(in)
		}})
		require.NoError(t, err)
		sitetest.Start(t, in)
		src.Put(site{Name: "a"})
		assert.Equal(t, []string{"add a.0 initial=true"}, added.take())
		victim.take()
		src.Delete("a")
		assert.Empty(t, victim.take())
	})
}

// Run waits for a callback, and takes no more steps.
func TestHandlerAddedWhileRunEndsIsNeverCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		stop := sitetest.Start(t, in)
		go stop() // it ends when the gate opens
		synctest.Wait()
		late, removed := newRecorder(t).add(in), newRecorder(t).add(in)
		removed.reg.Remove()
		close(r.gate)
		assert.Empty(t, late.take())
		assert.False(t, late.reg.HasSynced())
		late.reg.Remove()
		_, err := in.AddHandler(informer.Handler[string, site]{})
		assert.ErrorIs(t, err, informer.ErrEnded)
	})
}

func TestNoCallbackRunsAfterRunReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		for i := range 10 {
			src.Put(site{Name: fmt.Sprint(i)})
		}
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		stop := sitetest.Start(t, in)
		var stopped atomic.Bool
		go func() { stop(); stopped.Store(true) }() // ends when the gate opens
		synctest.Wait()
		assert.False(t, stopped.Load(), "a callback runs")
		r.gate <- struct{}{}
		synctest.Wait()
		assert.True(t, stopped.Load())
		assert.Equal(t, []string{"add 0.0 initial=true"}, r.take())
		<-r.reg.Remove()
	})
}

func TestUpdateCrossingHandlerFilterIsAddOrDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "b", Rev: 2})
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		h := r.handler()
		h.Filter = func(s site) bool { return s.Rev%2 == 0 }
		reg, err := in.AddHandler(h)
		require.NoError(t, err)
		sitetest.Start(t, in)
		assert.True(t, reg.HasSynced(), "filtered events count")
		assert.Equal(t, []string{"add b.2 initial=true"}, r.take())
		for _, c := range []struct {
			rev  int
			want []string
		}{
			{3, []string{"delete b.2"}}, {5, nil}, {6, []string{"add b.6 initial=false"}}, {8, []string{"update b.6 8"}},
		} {
			src.Put(site{Name: "b", Rev: c.rev})
			assert.Equal(t, c.want, r.take())
		}
		src.Delete("b")
		assert.Equal(t, []string{"delete b.8"}, r.take())
		src.Delete("a")
		assert.Empty(t, r.take(), "it was never delivered")
	})
}

func TestFilterComparesWithLastDeliveredState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		h := r.handler()
		h.Filter = func(s site) bool { return s.Rev%2 == 0 }
		_, err := in.AddHandler(h)
		require.NoError(t, err)
		sitetest.Start(t, in)
		src.Put(site{Name: "a", Rev: 2})
		synctest.Wait() // the handler is in OnAdd
		src.Put(site{Name: "a", Rev: 3})
		src.Delete("a")
		src.Put(site{Name: "b", Rev: 4})
		src.Put(site{Name: "b", Rev: 5})
		synctest.Wait()
		close(r.gate)
		assert.Equal(t, []string{"add a.2 initial=false", "delete a.2"}, r.take())
	})
}

func TestPanickingFilterRejectsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs sitetest.Errors
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		r := newRecorder(t)
		h := r.handler()
		h.Filter = func(s site) bool { return 10/s.Rev > 0 }
		_, err := in.AddHandler(h)
		require.NoError(t, err)
		sitetest.Start(t, in)
		src.Put(site{Name: "a", Rev: 0})
		assert.Empty(t, r.take())
		assert.ErrorContains(t, errs.Take()[0], "informer: call Filter of sites handler 1: ")
		src.Put(site{Name: "a", Rev: 1})
		assert.Equal(t, []string{"add a.1 initial=false"}, r.take())
	})
}

func TestHandlerNeedsNoFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		_, err := in.AddHandler(informer.Handler[string, site]{})
		require.NoError(t, err)
		sitetest.Start(t, in)
		src.Put(site{Name: "a"})
		synctest.Wait()
		src.Put(site{Name: "a"})
		synctest.Wait()
		src.Delete("a")
		synctest.Wait()
	})
}

func TestWaitForSync(t *testing.T) {
	t.Run("waits for all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			src.Put(site{Name: "a"})
			in := must(informer.New(src, nameOf, informer.Config{}))
			r := newRecorder(t)
			r.gate = make(chan struct{})
			r.add(in)
			sitetest.Start(t, in)
			time.AfterFunc(time.Hour, func() { close(r.gate) })
			began := time.Now()
			require.NoError(t, informer.WaitForSync(t.Context(), in, r.reg))
			assert.Equal(t, time.Hour, time.Since(began))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 20 { // select takes either if both are ready
				assert.NoError(t, informer.WaitForSync(ctx, in, r.reg))
			}
		})
	})
	t.Run("names the unsynced handlers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			silent := func(name string) *informer.Informer[string, site] {
				return must(informer.New(newSource(), nameOf, informer.Config{Name: name}))
			}
			ready := silent("ready")
			sitetest.Start(t, ready)
			one, two := silent("one"), silent("two")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := informer.WaitForSync(ctx, one, ready, two)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.EqualError(t, err, "informer: wait for sync of one, two: context deadline exceeded")
		})
	})
}

// TestHandlersAreAddedAndRemovedDuringEvents is a stress test for the race detector.
func TestHandlersAreAddedAndRemovedDuringEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, rounds, events = 16, 25, 2000
		src := newSource()
		// A watch may break before it has yielded anything, which is reported.
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		faithful := newRecorder(t).add(in)
		stop := sitetest.Start(t, in)
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for i := range rounds {
					gone := make(chan struct{})
					h := informer.Handler[string, site]{
						OnAdd:    func(site, bool) { assertOpen(t, gone) },
						OnUpdate: func(_, _ site) { assertOpen(t, gone) },
						OnDelete: func(cache.Tombstone[string, site]) { assertOpen(t, gone) },
					}
					reg, err := in.AddHandler(h)
					if err != nil {
						assert.ErrorIs(t, err, informer.ErrEnded)
						return
					}
					if i%2 == 0 {
						_ = informer.WaitForSync(t.Context(), reg)
					}
					<-reg.Remove()
					close(gone)
				}
			})
		}
		lives := make(map[string]int)
		for rev := range events {
			name := strings.Repeat("x", rev%13)
			src.Put(site{Name: name, Life: lives[name], Rev: rev})
			if rev%5 == 0 {
				src.Delete(name)
				lives[name]++
				src.Put(site{Name: name, Life: lives[name], Rev: rev})
			}
			if rev%100 == 0 {
				src.Break(nil)
				_, _ = in.Get(name)
				_ = in.LastHeard()
			}
		}
		require.NoError(t, in.WaitForVersion(t.Context(), src.Version()))
		wg.Wait()
		assert.Equal(t, contents(in), faithful.state())
		stop()
	})
}

func assertOpen(t *testing.T, ch <-chan struct{}) {
	select {
	case <-ch:
		t.Error("a callback runs after Remove has returned")
	default:
	}
}

func TestWaitForSyncDoesNotNoticeEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: func(error) {}}))
		sitetest.Start(t, in)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, informer.WaitForSync(ctx, in), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
