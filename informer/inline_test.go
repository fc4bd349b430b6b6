package informer_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// addInline adds r to in, as a handler with Inline.
func (r *recorder) addInline(in *informer.Informer[string, site]) *recorder {
	r.t.Helper()
	h := r.handler()
	h.Inline = true
	reg, err := in.AddHandler(h)
	require.NoError(r.t, err)
	r.reg = reg
	return r
}

// What a handler with Inline starts sees the change and its version, and whoever waits for the version also has what the handler has done.
func TestInlineHandlerIsCalledAfterVersionIsRaisedAndBeforeAnybodyIsNotified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		start(t, in)
		var order looptest.Log[string]
		_, err := in.AddHandler(informer.Handler[string, site]{Inline: true, OnAdd: func(s site, _ bool) {
			cached, ok := in.Get(s.Name)
			order.Add(fmt.Sprint("called at version ", in.Version(), ", cached: ", ok && cached == s))
			time.Sleep(time.Second)
			order.Add("returned")
		}})
		require.NoError(t, err)
		in.OnVersion(func(v informer.Version) { order.Add(fmt.Sprint("version ", v)) })
		synctest.Wait()
		v := src.Put(site{Name: "a"})
		synctest.Wait()
		assert.Equal(t, v, in.Version())
		began := time.Now()
		require.NoError(t, in.WaitForVersion(t.Context(), v))
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, []string{
			fmt.Sprint("called at version ", v, ", cached: true"), "returned", fmt.Sprint("version ", v),
		}, order.Take())
		require.NoError(t, in.WaitForVersion(t.Context(), v))
	})
}

func TestInlineHandlerIsCalledForEachChangeAndDelaysCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.addInline(in)
		other := newRecorder(t).add(in)
		start(t, in)
		src.Put(site{Name: "a", Rev: 1})
		assert.Equal(t, []string{"add a.1 initial=false"}, r.take())
		src.Put(site{Name: "a", Rev: 2})
		src.Delete("a")
		src.Put(site{Name: "a", Life: 3, Rev: 3})
		src.Delete("a")
		synctest.Wait()
		assert.Equal(t, 1, contents(in)["a"].Rev, "the cache waits")
		assert.Equal(t, []string{"add a.1 initial=false"}, other.take())
		close(r.gate)
		assert.Equal(t, []string{"update a.1 2", "delete a.2", "add a.3 initial=false", "delete a.3"}, r.take())
		assert.Empty(t, contents(in))
		assert.Empty(t, other.state())
		assert.Equal(t, []int{0, 0}, informer.Pending(in))
	})
}

// Between two pieces of what a handler gets when it joins, the cache changes. The changes come after the objects that were there.
func TestInlineHandlerJoinsInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2*informer.PieceSize + 1
		s := newChronicle(numbers(n), informer.Config{})
		start(t, s.in)
		other := newRecorder(t).add(s.in)
		other.take()
		r := newRecorder(t)
		r.pause = func() { time.Sleep(time.Second) }
		r.addInline(s.in)
		synctest.Wait()
		s.put("0")
		s.delete("1")
		s.put("new")
		time.Sleep(informer.PieceSize * time.Second)
		synctest.Wait()
		assert.Equal(t, s.truth, contents(s.in))
		assert.Equal(t, s.truth, other.state())
		assert.Equal(t, 3, s.in.Stats().Backlog)
		assert.False(t, r.reg.HasSynced())
		require.NoError(t, informer.CheckInvariants(s.in))

		idle := make(chan error, 1)
		go func() { idle <- r.reg.WaitIdle(t.Context()) }()
		time.Sleep((n - informer.PieceSize) * time.Second)
		synctest.Wait()
		assert.Empty(t, idle, "not all calls have returned")
		time.Sleep(3 * time.Second)
		require.NoError(t, <-idle)
		calls := r.take()
		assert.Len(t, calls, n+3)
		assert.Equal(t, []string{"update 0", "delete 1", "add new initial=false"}, tail(calls))
		assert.Equal(t, s.truth, r.state())
		assert.Zero(t, s.in.Stats().Backlog)

		s.put("0")
		synctest.Wait()
		assert.Zero(t, s.in.Stats().Backlog, "it is called at once")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"update 0"}, tail(r.take()))
	})
}

func TestStatsSayWhatCacheWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites"}))
		index := make(chan struct{})
		cache.AddIndex(in.Indexer(), func(s site) []int {
			if s.Name == "slow" {
				<-index
			}
			return nil
		})
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.addInline(in)
		start(t, in)
		time.Sleep(time.Hour)
		assert.Zero(t, in.Stats().Applying, "it waits for changes")
		src.Put(site{Name: "a"})
		time.Sleep(time.Minute)
		assert.Equal(t, time.Minute, in.Stats().Applying)
		assert.Equal(t, "sites handler 1", in.Stats().Calling)
		r.gate <- struct{}{}
		synctest.Wait()
		assert.Zero(t, in.Stats().Applying)
		src.Put(site{Name: "slow"})
		time.Sleep(time.Minute)
		assert.Equal(t, time.Minute, in.Stats().Applying)
		assert.Empty(t, in.Stats().Calling)
		close(index)
		close(r.gate)
	})
}

// The handler that ends Run is reported, its Remove returns, and whoever waits for the informer learns that it has ended.
func TestInlineHandlerCallingGoexitEndsRun(t *testing.T) {
	for name, h := range map[string]informer.Handler[string, site]{
		"OnAdd":    {OnAdd: func(site, bool) { runtime.Goexit() }},
		"OnUpdate": {OnUpdate: func(_, _ site) { runtime.Goexit() }},
		"Filter":   {Filter: func(site) bool { runtime.Goexit(); return true }},
	} {
		looptest.Bubble(t, name, func(t *testing.T) {
			var errs errorLog
			src := newSource()
			in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
			h.Inline = true
			reg, err := in.AddHandler(h)
			require.NoError(t, err)
			other := newRecorder(t).add(in)
			returned, ended := false, make(chan struct{})
			go func() {
				defer close(ended)
				_ = in.Run(t.Context())
				returned = true
			}()
			synctest.Wait()
			v := src.Put(site{Name: "a", Rev: 1})
			synctest.Wait()
			src.Put(site{Name: "a", Rev: 2})
			<-ended
			assert.False(t, returned)
			got := errs.Take()
			require.Len(t, got, 1)
			assert.EqualError(t, got[0], "informer: call "+name+" of sites handler 1: it has called runtime.Goexit, which ends Run")
			<-reg.Remove()
			<-other.reg.Remove()
			require.ErrorIs(t, in.WaitForVersion(t.Context(), v+2), informer.ErrEnded)
			require.ErrorIs(t, in.Run(t.Context()), informer.ErrEnded)
		})
	}
}

func TestRemoveOfInlineHandler(t *testing.T) {
	looptest.Bubble(t, "waits for the call", func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.addInline(in)
		start(t, in)
		src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "b", Rev: 2})
		synctest.Wait()
		removed := r.reg.Remove()
		synctest.Wait()
		assert.False(t, broadcast.IsClosed(removed))
		close(r.gate)
		<-removed
		assert.Equal(t, []string{"add a.1 initial=false"}, r.take())
		assert.Len(t, contents(in), 2)
	})
	looptest.Bubble(t, "by a call, which is the last", func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "b", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{}))
		for _, at := range []int64{1, 3} { // while it joins, and after that
			var calls atomic.Int64
			var reg atomic.Pointer[informer.Registration]
			r, err := in.AddHandler(informer.Handler[string, site]{Inline: true, OnAdd: func(site, bool) {
				if calls.Add(1) == at {
					(*reg.Load()).Remove()
				}
			}})
			require.NoError(t, err)
			reg.Store(&r)
			if at == 1 {
				start(t, in)
			}
			synctest.Wait()
			src.Put(site{Name: fmt.Sprint("c", at)})
			src.Put(site{Name: fmt.Sprint("d", at)})
			synctest.Wait()
			<-r.Remove()
			assert.Equal(t, at, calls.Load())
		}
	})
	looptest.Bubble(t, "is done when Run ends", func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{}))
		r := newRecorder(t).addInline(in)
		stop := start(t, in)
		stop()
		<-r.reg.Remove()
		require.ErrorIs(t, r.reg.WaitIdle(t.Context()), informer.ErrEnded)
	})
}

func TestInlineHandlerResyncsInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChronicle(numbers(informer.PieceSize+1), informer.Config{ResyncPeriod: time.Hour})
		start(t, s.in)
		resynced := 0
		_, err := s.in.AddHandler(informer.Handler[string, site]{Inline: true, OnResync: func(site) { resynced++; time.Sleep(time.Second) }})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		s.put("new")
		time.Sleep(informer.PieceSize * time.Second)
		synctest.Wait()
		assert.Equal(t, informer.PieceSize+1, resynced)
		assert.Equal(t, s.truth, contents(s.in), "the cache changes between two pieces")
	})
}

func TestApplyCallsInlineHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		for i := range informer.PieceSize + 1 {
			src.Put(site{Name: fmt.Sprint(i)})
		}
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t).addInline(in)
		steps := must(in.Steps(t.Context()))
		defer steps.Stop()
		steps.Read(t.Context())
		assert.Empty(t, r.take())
		assert.True(t, steps.Apply())
		assert.Len(t, r.take(), informer.PieceSize)
		assert.Equal(t, []informer.Registration{r.reg}, steps.Handlers())
		assert.False(t, steps.Deliver(r.reg))
		assert.False(t, r.reg.HasSynced())
		assert.True(t, steps.Apply())
		assert.Len(t, r.take(), 1)
		assert.True(t, r.reg.HasSynced())
		assert.False(t, steps.Apply())
		src.Put(site{Name: "a", Rev: 7})
		steps.Read(t.Context())
		assert.True(t, steps.Apply())
		assert.Equal(t, []string{"add a.7 initial=false"}, r.take())
	})
}

// A context that ends during a call ends Run after it.
func TestRunEndsAfterInlineCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.addInline(in)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		synctest.Wait()
		src.Put(site{Name: "a", Rev: 1})
		synctest.Wait()
		cancel()
		synctest.Wait()
		assert.Empty(t, ended)
		close(r.gate)
		require.NoError(t, <-ended)
	})
}
