package informer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/wait"
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
		start(t, in)
		var removed atomic.Int32
		var wg sync.WaitGroup
		for range 3 { // each of them waits
			wg.Go(func() { <-r.reg.Remove(); removed.Add(1) })
		}
		synctest.Wait()
		assert.Zero(t, removed.Load(), "a callback runs")
		assert.Empty(t, informer.Pending(in))
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
		start(t, in)
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
		start(t, in)
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
		stop := start(t, in)
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
		stop := start(t, in)
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

// TestHandlersAreAddedAndRemovedDuringEvents is a stress test for the race detector.
func TestHandlersAreAddedAndRemovedDuringEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, rounds, events = 16, 25, 2000
		src := newSource()
		// A watch may break before it has yielded anything, which is reported.
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		faithful := newRecorder(t).add(in)
		stop := start(t, in)
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for i := range rounds {
					removed := make(chan struct{})
					h := informer.Handler[string, site]{
						OnAdd:    func(site, bool) { assertOpen(t, removed) },
						OnUpdate: func(_, _ site) { assertOpen(t, removed) },
						OnDelete: func(cache.Tombstone[string, site]) { assertOpen(t, removed) },
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
					close(removed)
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
				_ = in.LastReceived()
			}
		}
		require.NoError(t, in.WaitForVersion(t.Context(), src.Version()))
		wg.Wait()
		assert.Equal(t, contents(in), faithful.state())
		stop()
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

// This is a stress test for the race detector. Whatever a handler is doing when Run ends, nothing hangs, and no
// callback runs afterward.
func TestHandlersAreAddedAndRemovedWhileRunEnds(t *testing.T) {
	for round := range 30 {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
			stop := start(t, in)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					for {
						reg, err := in.AddHandler(informer.Handler[string, site]{
							OnAdd:    func(site, bool) { assertOpen(t, ended) },
							OnUpdate: func(site, site) { assertOpen(t, ended) },
						})
						if err != nil {
							assert.ErrorIs(t, err, informer.ErrEnded)
							return
						}
						_ = informer.WaitForSync(ctx, reg)
						<-reg.Remove()
					}
				})
			}
			for rev := range round * 10 {
				src.Put(site{Name: fmt.Sprint(rev % 13), Rev: rev})
			}
			stop()
			close(ended)
			cancel()
			wg.Wait()
		})
	}
}

// The handler is removed during the call for the first object, while others are pending.
func TestHandlerRemovedWhileJoiningReleasesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChronicle(numbers(2*informer.PieceSize), informer.Config{})
		other := newRecorder(t).add(s.in)
		start(t, s.in)
		captured := new([100]int) // what the handler refers to
		freed := weak.Make(captured)
		late := newRecorder(t)
		late.gate = make(chan struct{})
		inner := late.handler()
		reg, err := s.in.AddHandler(informer.Handler[string, site]{OnAdd: func(s site, initial bool) {
			captured[0]++
			inner.OnAdd(s, initial)
		}})
		require.NoError(t, err)
		synctest.Wait()
		s.put("0")
		s.put("1")
		s.put("new")
		synctest.Wait()
		assert.Equal(t, []int{0, 3}, informer.Pending(s.in))
		done := reg.Remove()
		assert.Equal(t, []int{0}, informer.Pending(s.in))
		s.put("2")
		close(late.gate)
		<-done
		s.put("1")
		assert.Len(t, late.take(), 1)
		assert.False(t, reg.HasSynced())
		assert.Equal(t, s.truth, other.state())
		reg = nil
		runtime.GC()
		assert.Nil(t, freed.Value())
	})
}

// leaver is a handler that removes itself in one of its calls, which takes an hour. It checks that there are no more.
type leaver struct {
	t     testing.TB
	last  int    // the number of the call
	after func() // how the call ends; nil is by its return

	registered chan informer.Registration // holds the registration
	left       chan struct{}              // closed when Remove has returned
	done       <-chan struct{}            // of Remove
	calls      []string
}

func newLeaver(t testing.TB, last int) *leaver {
	return &leaver{t: t, last: last, registered: make(chan informer.Registration, 1), left: make(chan struct{})}
}

func (l *leaver) add(in *informer.Informer[string, site], h informer.Handler[string, site]) *leaver {
	h.OnAdd = func(s site, initial bool) { l.call(fmt.Sprintf("add %s.%d %t", s.Name, s.Rev, initial)) }
	h.OnUpdate = func(old, s site) { l.call(fmt.Sprintf("update %s.%d %d", s.Name, old.Rev, s.Rev)) }
	h.OnDelete = func(d cache.Tombstone[string, site]) { l.call("delete " + d.Key) }
	if h.Filter != nil {
		h.Filter = func(s site) bool { l.call(fmt.Sprintf("filter %s.%d", s.Name, s.Rev)); return true }
	}
	reg, err := in.AddHandler(h)
	require.NoError(l.t, err)
	l.registered <- reg
	return l
}

func (l *leaver) call(what string) {
	if l.done != nil {
		l.t.Errorf("%s, after it has removed itself", what)
	}
	l.calls = append(l.calls, what)
	if what == "add hold.1 false" {
		time.Sleep(time.Minute) // changes queue up in the meantime
	}
	if len(l.calls) != l.last {
		return
	}
	l.done = (<-l.registered).Remove()
	close(l.left)
	time.Sleep(time.Hour)
	if l.after != nil {
		l.after()
	}
}

// leaves checks that l leaves, and that its call is waited for.
func (l *leaver) leaves() {
	<-l.left
	synctest.Wait()
	assert.False(l.t, broadcast.IsClosed(l.done), "the call goes on")
	time.Sleep(time.Hour - time.Nanosecond)
	synctest.Wait()
	assert.False(l.t, broadcast.IsClosed(l.done), "the call goes on")
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	assert.True(l.t, broadcast.IsClosed(l.done))
}

func TestCallbackMayRemoveItsOwnHandler(t *testing.T) {
	all := func(site) bool { return true }
	hold := []string{"add a.1 true", "add b.1 true", "add hold.1 false"}
	filtered := []string{"filter a.1", "add a.1 true", "filter b.1", "add b.1 true", "filter hold.1", "add hold.1 false"}
	for _, c := range []struct {
		handler informer.Handler[string, site]
		calls   []string // the last one removes the handler
	}{
		{informer.Handler[string, site]{}, hold[:1]},
		{informer.Handler[string, site]{}, hold[:2]},
		{informer.Handler[string, site]{}, hold},
		{informer.Handler[string, site]{}, slices.Concat(hold, []string{"update a.1 2"})},
		{informer.Handler[string, site]{}, slices.Concat(hold, []string{"update a.1 2", "delete b"})}, // OnAdd is to follow
		{informer.Handler[string, site]{}, slices.Concat(hold, []string{"update a.1 2", "delete b", "add b.3 false"})},
		{informer.Handler[string, site]{Filter: all}, filtered[:1]},
		{informer.Handler[string, site]{Filter: all}, filtered[:2]},
		{informer.Handler[string, site]{Filter: all}, slices.Concat(filtered, []string{"filter a.1"})}, // and of its other state
		{informer.Handler[string, site]{Filter: all}, slices.Concat(filtered, []string{"filter a.1", "filter a.2"})},
		{informer.Handler[string, site]{Filter: all}, slices.Concat(filtered, []string{
			"filter a.1", "filter a.2", "update a.1 2", "filter b.1", "filter b.3", "filter b.1",
		})}, // of its last state
		{informer.Handler[string, site]{Filter: all}, slices.Concat(filtered, []string{
			"filter a.1", "filter a.2", "update a.1 2", "filter b.1", "filter b.3", "filter b.1", "delete b",
		})},
		{informer.Handler[string, site]{EveryEvent: true}, hold[:1]},
		{informer.Handler[string, site]{EveryEvent: true}, slices.Concat(hold, []string{"update a.1 2"})},
		{informer.Handler[string, site]{ResyncPeriod: 24 * time.Hour}, slices.Concat(hold, []string{
			"update a.1 2", "delete b", "add b.3 false", "add new.4 false", "update a.2 2",
		})},
	} {
		n := len(c.calls)
		t.Run(fmt.Sprintf("in call %d, %s", n, c.calls[n-1]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				src.Put(site{Name: "a", Rev: 1})
				src.Put(site{Name: "b", Rev: 1})
				in := must(informer.New(src, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
				other := newRecorder(t).add(in)
				start(t, in)
				l := newLeaver(t, n).add(in, c.handler)
				synctest.Wait()
				src.Put(site{Name: "hold", Rev: 1})
				synctest.Wait()
				src.Put(site{Name: "a", Rev: 2})
				src.Delete("b")
				src.Put(site{Name: "b", Life: 1, Rev: 3})
				src.Put(site{Name: "new", Rev: 4})
				l.leaves()
				assert.Equal(t, c.calls, l.calls)
				src.Put(site{Name: "a", Rev: 5})
				time.Sleep(48 * time.Hour)
				assert.Equal(t, contents(in), other.state())
				assert.Equal(t, []int{0}, informer.Pending(in), "of the other one")
			})
		})
	}
}

func TestRemoveWaitsForCallbackThatRemovedItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{}))
		l := newLeaver(t, 1)
		reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { l.call("add") }})
		require.NoError(t, err)
		l.registered <- reg
		start(t, in)
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				<-reg.Remove()
				assert.Equal(t, time.Hour, time.Since(began))
			})
		}
		wg.Wait()
		assert.True(t, broadcast.IsClosed(l.done))
	})
}

func TestHandlersMayRemoveEachOtherConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		src.Put(site{Name: "b"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		var regs [2]informer.Registration
		var calls [2]int
		for i := range regs {
			reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) {
				time.Sleep(time.Hour) // until both are called
				calls[i]++
				regs[1-i].Remove()
				time.Sleep(time.Hour)
			}})
			require.NoError(t, err)
			regs[i] = reg
		}
		start(t, in)
		for _, reg := range regs {
			<-reg.Remove()
		}
		assert.Equal(t, [2]int{1, 1}, calls)
	})
}

func TestCallbackMayPanicOrExitAfterRemovingItsHandler(t *testing.T) {
	for name, c := range map[string]struct {
		end  func()
		want string
	}{
		"by a panic":  {func() { panic("oops") }, "informer: call OnAdd of sites handler 1: panic: oops"},
		"by a Goexit": {runtime.Goexit, "informer: call OnAdd of sites handler 1: it has called runtime.Goexit, and is called no more"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs errorLog
				src := newSource()
				src.Put(site{Name: "a", Rev: 1})
				src.Put(site{Name: "b", Rev: 1})
				in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
				l := newLeaver(t, 1)
				l.after = c.end
				l.add(in, informer.Handler[string, site]{})
				start(t, in)
				l.leaves()
				got := errs.Take()
				require.Len(t, got, 1)
				assert.ErrorContains(t, got[0], c.want)
				assert.Equal(t, []string{"add a.1 true"}, l.calls)
			})
		})
	}
}

// OnError is called by the goroutine of the handler that has panicked.
func TestOnErrorMayRemovePanickingHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		src.Put(site{Name: "b"})
		var reg informer.Registration
		var done <-chan struct{}
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(err error) {
			if crash := (*wait.PanicError)(nil); errors.As(err, &crash) {
				done = reg.Remove()
			}
		}}))
		calls := 0
		reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { calls++; panic("oops") }})
		require.NoError(t, err)
		start(t, in)
		<-done
		assert.Equal(t, 1, calls)
	})
}

func TestCallbackMayRemoveItsHandlerWhileRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "b", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{}))
		var reg informer.Registration
		var done <-chan struct{}
		calls := 0
		reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) {
			calls++
			time.Sleep(time.Hour)
			done = reg.Remove()
			time.Sleep(time.Hour)
		}})
		require.NoError(t, err)
		stop := start(t, in)
		began := time.Now()
		stop()
		assert.Equal(t, 2*time.Hour, time.Since(began))
		assert.True(t, broadcast.IsClosed(done))
		assert.True(t, broadcast.IsClosed(reg.Remove()), "it has ended")
		assert.Equal(t, 1, calls)
	})
}

func TestRemoveOfUnjoinedHandlerReturnsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{}))
		before, after := newRecorder(t).add(in), newRecorder(t)
		assert.True(t, broadcast.IsClosed(before.reg.Remove()), "nobody runs it")
		src := newSource()
		src.Fail(errOutage)
		in = must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		before, after = newRecorder(t).add(in), after.add(in)
		stop := start(t, in)
		assert.True(t, broadcast.IsClosed(before.reg.Remove()), "there is no list")
		stop()
		assert.True(t, broadcast.IsClosed(after.reg.Remove()), "Run has ended")
		assert.True(t, broadcast.IsClosed(after.reg.Remove()), "again")
	})
}

// The caller still holds the registration.
func TestRemovedHandlerReleasesPendingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := informertest.NewSource(func(s *site) string { return s.Name })
		in := must(informer.New(src, func(s *site) string { return s.Name }, informer.Config{}))
		gate := make(chan struct{})
		reg, err := in.AddHandler(informer.Handler[string, *site]{OnAdd: func(*site, bool) { <-gate }, EveryEvent: true})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }() // ends with ctx; waited for below
		synctest.Wait()
		src.Put(&site{Name: "a"}) // is with the handler
		synctest.Wait()
		waits := &site{Name: "b"}
		freed := weak.Make(waits)
		src.Put(waits)
		src.Put(&site{Name: "b"}) // takes its place in the cache
		synctest.Wait()
		src.Compact()
		waits = nil
		runtime.GC()
		require.NotNil(t, freed.Value(), "it is not delivered yet")
		done := reg.Remove()
		close(gate)
		<-done
		runtime.GC()
		assert.Nil(t, freed.Value())
		cancel()
		assert.NoError(t, <-ended)
		runtime.KeepAlive(reg)
	})
}

// TestHandlersRemoveThemselvesAndEachOther is a stress test for the race detector.
func TestHandlersRemoveThemselvesAndEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const goroutines, rounds = 8, 60
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		faithful := newRecorder(t).add(in)
		stop := start(t, in)
		var wg sync.WaitGroup
		for n := range goroutines {
			wg.Go(func() {
				for i := range rounds {
					calls := 0 // without a lock: what Remove says is done is in order with what follows
					registered := make(chan informer.Registration, 1)
					leave := func() {
						if calls++; calls == i%5 {
							(<-registered).Remove()
						}
						if calls > i%5 && i%5 > 0 {
							t.Errorf("call %d of a handler that removed itself in call %d", calls, i%5)
						}
					}
					reg, err := in.AddHandler(informer.Handler[string, site]{
						OnAdd: func(site, bool) { leave() }, OnUpdate: func(_, _ site) { leave() },
						OnDelete: func(cache.Tombstone[string, site]) { leave() }, EveryEvent: i%3 == 0,
					})
					if !assert.NoError(t, err) {
						return
					}
					registered <- reg
					name := fmt.Sprint(n)
					src.Put(site{Name: name, Life: i, Rev: i})
					src.Delete(name)
					<-reg.Remove()
					calls = -1
				}
			})
		}
		wg.Wait()
		require.NoError(t, in.WaitForVersion(t.Context(), src.Version()))
		assert.Equal(t, contents(in), faithful.state())
		stop()
	})
}

func TestWaitIdleReturnsAfterHandlerCatchesUp(t *testing.T) {
	for _, every := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			src.Put(site{Name: "a"})
			in := must(informer.New(src, nameOf, informer.Config{}))
			var calls atomic.Int64
			count := func() { time.Sleep(time.Second); calls.Add(1) }
			reg, err := in.AddHandler(informer.Handler[string, site]{
				EveryEvent: every, OnAdd: func(site, bool) { count() }, OnUpdate: func(_, _ site) { count() },
			})
			require.NoError(t, err)
			idle := make(chan error, 1)
			go func() { idle <- reg.WaitIdle(context.Background()) }()
			time.Sleep(time.Minute)
			assert.Empty(t, idle, "the cache has not synced")
			start(t, in)
			require.NoError(t, <-idle)
			assert.EqualValues(t, 1, calls.Load())

			for _, name := range []string{"b", "c", "d"} {
				src.Put(site{Name: name})
			}
			require.NoError(t, in.WaitForVersion(t.Context(), 4))
			began := time.Now()
			go func() {
				for range 20 { // more keeps coming, and b again and again
					time.Sleep(100 * time.Millisecond)
					src.Put(site{Name: "b"})
					src.Put(site{Name: time.Since(began).String()})
				}
			}()
			require.NoError(t, reg.WaitIdle(t.Context()))
			assert.Equal(t, 3*time.Second, time.Since(began), "later events do not delay it")
			assert.EqualValues(t, 4, calls.Load())
			time.Sleep(time.Hour)
			began = time.Now()
			require.NoError(t, reg.WaitIdle(t.Context()), "nothing is pending")
			assert.Zero(t, time.Since(began))
			assert.Zero(t, informer.Flushes(in))
		})
	}
}

func TestWaitIdleReturnsWhenHandlerIsDone(t *testing.T) {
	blocked := func(t *testing.T) (in *informer.Informer[string, site], reg informer.Registration) {
		src := newSource()
		src.Put(site{Name: "a"})
		in = must(informer.New(src, nameOf, informer.Config{}))
		gate := make(chan struct{})
		reg, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd: func(site, bool) {}, OnUpdate: func(_, _ site) { <-gate },
		})
		require.NoError(t, err)
		start(t, in)
		t.Cleanup(func() { close(gate) }) // before Run ends
		require.NoError(t, reg.WaitIdle(t.Context()))
		src.Put(site{Name: "a"})
		require.NoError(t, in.WaitForVersion(t.Context(), 2))
		return in, reg
	}
	t.Run("its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in, reg := blocked(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := reg.WaitIdle(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Contains(t, err.Error(), "handler 1 to be idle")
			assert.Zero(t, informer.Flushes(in), "nothing is left of it")
		})
	})
	t.Run("it is removed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in, reg := blocked(t)
			idle := make(chan error, 1)
			go func() { idle <- reg.WaitIdle(context.Background()) }()
			synctest.Wait()
			reg.Remove()
			require.ErrorIs(t, <-idle, informer.ErrEnded)
			require.ErrorIs(t, reg.WaitIdle(t.Context()), informer.ErrEnded)
			assert.Zero(t, informer.Flushes(in))
		})
	})
	t.Run("Run ends before it has joined", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			in := must(informer.New(src, nameOf, informer.Config{}))
			reg, err := in.AddHandler(informer.Handler[string, site]{})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, in.Run(ctx))
			require.ErrorIs(t, reg.WaitIdle(t.Context()), informer.ErrEnded)
		})
	})
}

func TestWaitIdleReturnsBetweenSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) {}})
		require.NoError(t, err)
		steps, err := in.Steps(t.Context())
		require.NoError(t, err)
		defer steps.Stop()
		idle := make(chan error, 1)
		go func() { idle <- reg.WaitIdle(context.Background()) }()
		steps.Read(t.Context())
		steps.Apply()
		synctest.Wait()
		assert.Empty(t, idle, "the handler has not been called")
		assert.True(t, steps.Deliver(reg))
		synctest.Wait()
		steps.Apply()
		require.NoError(t, <-idle)

		src.Put(site{Name: "b"})
		for in.Version() < 2 {
			steps.Read(t.Context())
			steps.Apply()
		}
		go func() { idle <- reg.WaitIdle(context.Background()) }()
		synctest.Wait()
		steps.Apply()
		synctest.Wait()
		assert.Empty(t, idle)
		assert.True(t, steps.Deliver(reg))
		require.NoError(t, <-idle)
	})
}

// Run changes the cache before it passes the changes on. In between, an object is in the cache and pending for no handler.
func TestWaitIdleWaitsForChangesThatAreOnlyInTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		gates := map[string]chan struct{}{"first": make(chan struct{}), "second": make(chan struct{})}
		cache.AddIndex(in.Indexer(), func(s site) []string {
			if gate := gates[s.Name]; gate != nil {
				<-gate
			}
			return nil
		})
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		start(t, in)
		src.Put(site{Name: "slow"})
		synctest.Wait() // the handler is busy with it
		src.Put(site{Name: "first"})
		synctest.Wait() // the cache is busy with it, so the next two are applied together
		src.Put(site{Name: "a"})
		src.Put(site{Name: "second"})
		close(gates["first"])
		synctest.Wait()
		_, cached := in.Get("a")
		require.True(t, cached)

		idle := make(chan error, 1)
		go func() { idle <- r.reg.WaitIdle(t.Context()) }() // ends with the callbacks; received below
		synctest.Wait()
		r.gate <- struct{}{} // slow
		r.gate <- struct{}{} // first
		synctest.Wait()
		assert.Empty(t, idle, "a is in the cache, and was not reported")
		close(gates["second"])
		close(r.gate)
		require.NoError(t, <-idle)
		assert.Contains(t, r.state(), "a")
	})
}
