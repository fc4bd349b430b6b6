package informer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/wait"
)

// leaver is a handler that removes itself in one of its calls, which takes an hour. It checks that there are no more.
type leaver struct {
	t     testing.TB
	last  int    // the number of the call
	after func() // how the call ends; nil is by its return

	registered chan *informer.Registration // holds the registration
	left       chan struct{}               // closed when Remove has returned
	done       <-chan struct{}             // of Remove
	calls      []string
}

func newLeaver(t testing.TB, last int) *leaver {
	return &leaver{t: t, last: last, registered: make(chan *informer.Registration, 1), left: make(chan struct{})}
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
	assert.False(l.t, isClosed(l.done), "the call goes on")
	time.Sleep(time.Hour - time.Nanosecond)
	synctest.Wait()
	assert.False(l.t, isClosed(l.done), "the call goes on")
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	assert.True(l.t, isClosed(l.done))
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
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
				sitetest.Start(t, in)
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
				assert.Equal(t, []int{0}, informer.Waiting(in), "of the other one")
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
		sitetest.Start(t, in)
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				<-reg.Remove()
				assert.Equal(t, time.Hour, time.Since(began))
			})
		}
		wg.Wait()
		assert.True(t, isClosed(l.done))
	})
}

func TestHandlersMayRemoveEachOtherConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		src.Put(site{Name: "b"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		var regs [2]*informer.Registration
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
		sitetest.Start(t, in)
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
				var errs sitetest.Errors
				src := newSource()
				src.Put(site{Name: "a", Rev: 1})
				src.Put(site{Name: "b", Rev: 1})
				in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
				l := newLeaver(t, 1)
				l.after = c.end
				l.add(in, informer.Handler[string, site]{})
				sitetest.Start(t, in)
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
		var reg *informer.Registration
		var done <-chan struct{}
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(err error) {
			if crash := (*wait.PanicError)(nil); errors.As(err, &crash) {
				done = reg.Remove()
			}
		}}))
		calls := 0
		reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { calls++; panic("oops") }})
		require.NoError(t, err)
		sitetest.Start(t, in)
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
		var reg *informer.Registration
		var done <-chan struct{}
		calls := 0
		reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) {
			calls++
			time.Sleep(time.Hour)
			done = reg.Remove()
			time.Sleep(time.Hour)
		}})
		require.NoError(t, err)
		stop := sitetest.Start(t, in)
		began := time.Now()
		stop()
		assert.Equal(t, 2*time.Hour, time.Since(began))
		assert.True(t, isClosed(done))
		assert.True(t, isClosed(reg.Remove()), "it has ended")
		assert.Equal(t, 1, calls)
	})
}

func TestRemoveOfUnjoinedHandlerReturnsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{}))
		before, after := newRecorder(t).add(in), newRecorder(t)
		assert.True(t, isClosed(before.reg.Remove()), "nobody runs it")
		src := newSource()
		src.Fail(errOutage)
		in = must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		before, after = newRecorder(t).add(in), after.add(in)
		stop := sitetest.Start(t, in)
		assert.True(t, isClosed(before.reg.Remove()), "there is no list")
		stop()
		assert.True(t, isClosed(after.reg.Remove()), "Run has ended")
		assert.True(t, isClosed(after.reg.Remove()), "again")
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
		gone := weak.Make(waits)
		src.Put(waits)
		src.Put(&site{Name: "b"}) // takes its place in the cache
		synctest.Wait()
		src.Compact()
		waits = nil
		runtime.GC()
		require.NotNil(t, gone.Value(), "it is not delivered yet")
		done := reg.Remove()
		close(gate)
		<-done
		runtime.GC()
		assert.Nil(t, gone.Value())
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
		stop := sitetest.Start(t, in)
		var wg sync.WaitGroup
		for n := range goroutines {
			wg.Go(func() {
				for i := range rounds {
					calls := 0 // without a lock: what Remove says is done is in order with what follows
					registered := make(chan *informer.Registration, 1)
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
