package informer_test

import (
	"context"
	"fmt"
	"runtime"
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

// stepping returns an informer, its source with a and b, and its steps.
func stepping(t *testing.T, cfg informer.Config) (
	*informertest.Source[string, site], *informer.Informer[string, site], informer.Steps,
) {
	src := newSource()
	src.Put(site{Name: "a", Rev: 1})
	src.Put(site{Name: "b", Rev: 2})
	in := must(informer.New(src, nameOf, cfg))
	steps, err := in.Steps(t.Context())
	require.NoError(t, err)
	t.Cleanup(steps.Stop)
	return src, in, steps
}

// deliverAll makes every call that waits.
func deliverAll(steps informer.Steps) (calls int) {
	for _, handler := range steps.Handlers() {
		for steps.Deliver(handler) {
			calls++
		}
	}
	return calls
}

func TestStepsReadApplyAndDeliverOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, in, steps := stepping(t, informer.Config{})
		r := newRecorder(t)
		r.add(in)
		assert.False(t, steps.Apply(), "nothing was read")
		assert.Empty(t, steps.Handlers())

		assert.True(t, steps.Read(t.Context()))
		assert.Empty(t, contents(in))
		assert.True(t, steps.Apply())
		assert.Len(t, contents(in), 2)
		assert.False(t, steps.Apply())
		require.Len(t, steps.Handlers(), 1)
		handler := steps.Handlers()[0]
		assert.Empty(t, r.take())
		for i, want := range []string{"add a.1 initial=true", "add b.2 initial=true"} {
			assert.True(t, steps.Deliver(handler))
			assert.Equal(t, []string{want}, r.take())
			assert.Equal(t, i == 1, handler.HasSynced())
		}
		assert.False(t, steps.Deliver(handler))

		for rev := 3; rev <= 5; rev++ {
			src.Put(site{Name: "a", Rev: rev})
		}
		for range 3 {
			assert.True(t, steps.Read(t.Context()))
		}
		for rev := 3; rev <= 5; rev++ {
			assert.True(t, steps.Apply())
			s, _ := in.Get("a")
			assert.Equal(t, rev, s.Rev, "one state after the other")
			assert.Equal(t, informer.Version(rev), in.Version())
		}
		assert.Empty(t, r.take())
		assert.True(t, steps.Deliver(handler))
		assert.Equal(t, []string{"update a.1 5"}, r.take())
	})
}

func TestRecreatedObjectTakesTwoSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, in, steps := stepping(t, informer.Config{})
		var calls []string
		_, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd:    func(s site, _ bool) { calls = append(calls, fmt.Sprint("add ", s.Rev)) },
			OnDelete: func(d cache.Tombstone[string, site]) { calls = append(calls, fmt.Sprint("delete ", d.Object.Rev)) },
		})
		require.NoError(t, err)
		steps.Read(t.Context())
		steps.Apply()
		deliverAll(steps)
		src.Delete("a")
		src.Put(site{Name: "a", Life: 1, Rev: 4})
		for in.Version() < src.Version() {
			steps.Read(t.Context())
			steps.Apply()
		}
		calls = nil
		assert.True(t, steps.Deliver(steps.Handlers()[0]))
		assert.Equal(t, []string{"delete 1"}, calls)
		assert.True(t, steps.Deliver(steps.Handlers()[0]))
		assert.Equal(t, []string{"delete 1", "add 4"}, calls)
		assert.False(t, steps.Deliver(steps.Handlers()[0]))
	})
}

func TestReadEndsWithContextAndKeepsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, in, steps := stepping(t, informer.Config{OnError: func(err error) { t.Error(err) }})
		steps.Read(t.Context())
		steps.Apply()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		assert.False(t, steps.Read(short))
		assert.Equal(t, time.Second, time.Since(began))
		assert.False(t, steps.Read(short), "it has ended")

		src.Put(site{Name: "a", Rev: 3})
		src.Put(site{Name: "b", Rev: 4})
		once, cancel := context.WithCancel(t.Context())
		assert.True(t, steps.Read(once))
		cancel()
		synctest.Wait()
		assert.True(t, steps.Read(t.Context()), "the watch outlives the context of the Read that began it")
		for steps.Apply() {
		}
		assert.Equal(t, src.Version(), in.Version())
	})
}

// detailed is a context that cannot be compared with ==.
type detailed struct {
	context.Context
	details []string
}

func TestReadTakesContextOfAnyType(t *testing.T) {
	src := newSource()
	src.Put(site{Name: "a", Rev: 1})
	in := must(informer.New(src, nameOf, informer.Config{}))
	ctx := detailed{t.Context(), []string{"a test"}}
	steps, err := in.Steps(ctx)
	require.NoError(t, err)
	defer steps.Stop()
	assert.True(t, steps.Read(ctx))
	assert.True(t, steps.Apply())
	assert.Len(t, contents(in), 1)
}

func TestReadSkipsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		src, in, steps := stepping(t, informer.Config{Backoff: wait.Backoff{Duration: time.Hour}, OnError: errs.Add})
		began := time.Now()
		src.Fail(errOutage)
		for range 3 {
			assert.False(t, steps.Read(t.Context()))
		}
		assert.Len(t, errs.Take(), 3)
		src.Fail(nil)
		assert.True(t, steps.Read(t.Context()), "a list")
		steps.Apply()
		src.Put(site{Name: "a", Rev: 3})
		src.Compact()
		src.Put(site{Name: "a", Rev: 4})
		assert.False(t, steps.Read(t.Context()), "the version has expired")
		assert.True(t, steps.Read(t.Context()), "a list")
		steps.Apply()
		assert.Equal(t, src.Version(), in.Version())
		assert.Equal(t, began, time.Now())
	})
}

func TestReadStopsWhenApplyFallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, in, steps := stepping(t, informer.Config{})
		steps.Read(t.Context())
		steps.Apply()
		for rev := range informer.MaxBatch + 1 {
			src.Put(site{Name: "a", Rev: rev})
		}
		for range informer.MaxBatch {
			require.True(t, steps.Read(t.Context()))
		}
		assert.False(t, steps.Read(t.Context()))
		assert.True(t, steps.Apply())
		assert.True(t, steps.Read(t.Context()))
		for steps.Apply() {
		}
		assert.Equal(t, src.Version(), in.Version())
	})
}

func TestResetTakesEffectBetweenReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, in, steps := stepping(t, informer.Config{})
		steps.Read(t.Context())
		steps.Apply()
		src.Put(site{Name: "c", Rev: 3})
		steps.Read(t.Context())
		in.Reset()
		assert.True(t, steps.Read(t.Context()), "the list of a new history")
		assert.True(t, steps.Apply())
		assert.True(t, steps.Apply())
		assert.Len(t, contents(in), 3)
		assert.Equal(t, src.Version(), in.Version())
	})
}

func TestApplyResyncsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, steps := stepping(t, informer.Config{ResyncPeriod: time.Hour})
		updates := 0
		_, err := in.AddHandler(informer.Handler[string, site]{OnUpdate: func(_, _ site) { updates++ }})
		require.NoError(t, err)
		steps.Read(t.Context())
		steps.Apply()
		deliverAll(steps)
		time.Sleep(time.Hour - 1)
		assert.False(t, steps.Apply())
		time.Sleep(time.Nanosecond)
		for steps.Apply() {
		}
		deliverAll(steps)
		assert.Equal(t, 2, updates)
	})
}

func TestFailedApplyTriggersRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, steps := stepping(t, informer.Config{Backoff: wait.Backoff{Duration: time.Minute}, OnError: func(error) {}})
		broken := true
		cache.AddIndex(in.Indexer(), func(s site) []int {
			if s.Name == "b" && broken {
				panic("oh")
			}
			return nil
		})
		steps.Read(t.Context())
		steps.Apply()
		assert.Len(t, contents(in), 1)
		broken = false
		time.Sleep(time.Minute - 1)
		steps.Apply()
		time.Sleep(time.Nanosecond)
		steps.Apply()
		assert.True(t, steps.Read(t.Context()), "a list")
		steps.Apply()
		assert.Len(t, contents(in), 2)
	})
}

func TestPanickingCallIsOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		_, in, steps := stepping(t, informer.Config{OnError: errs.Add})
		_, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { panic("oh") }})
		require.NoError(t, err)
		steps.Read(t.Context())
		steps.Apply()
		for range 2 {
			assert.True(t, steps.Deliver(steps.Handlers()[0]))
			assert.Len(t, errs.Take(), 1)
		}
		assert.False(t, steps.Deliver(steps.Handlers()[0]))
	})
}

func TestRemoveWaitsOnlyForDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, steps := stepping(t, informer.Config{})
		release := make(chan struct{})
		slow, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { <-release }})
		require.NoError(t, err)
		idle, err := in.AddHandler(informer.Handler[string, site]{})
		require.NoError(t, err)
		assert.False(t, steps.Deliver(idle), "it has not joined")
		steps.Read(t.Context())
		steps.Apply()
		<-idle.Remove()
		assert.False(t, steps.Deliver(idle))

		go steps.Deliver(slow)
		synctest.Wait()
		assert.False(t, steps.Deliver(slow), "a call is in flight")
		done := slow.Remove()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a call is in flight")
		default:
		}
		close(release)
		<-done
		assert.False(t, steps.Deliver(slow))
		assert.Empty(t, steps.Handlers())
	})
}

func TestStepsReplaceRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in, _ := stepping(t, informer.Config{})
		require.ErrorIs(t, in.Run(t.Context()), informer.ErrRunning)
		_, err := in.Steps(t.Context())
		require.ErrorIs(t, err, informer.ErrRunning)
	})
	synctest.Test(t, func(t *testing.T) {
		src, in, steps := stepping(t, informer.Config{})
		reg, err := in.AddHandler(informer.Handler[string, site]{})
		require.NoError(t, err)
		steps.Read(t.Context())
		steps.Apply()
		src.Put(site{Name: "c", Rev: 3})
		src.Put(site{Name: "d", Rev: 4})
		steps.Read(t.Context()) // leaves a watch open
		steps.Stop()
		steps.Stop()
		assert.False(t, steps.Read(t.Context()) || steps.Apply() || steps.Deliver(reg))
		<-reg.Remove()
		assert.Len(t, contents(in), 2)
		require.ErrorIs(t, in.Run(t.Context()), informer.ErrEnded)
		_, err = in.Steps(t.Context())
		require.EqualError(t, err, "informer: take steps of informer_test.site: has ended")
	})
}

func TestDeliverRejectsHandlerOfAnotherInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, steps := stepping(t, informer.Config{})
		other := must(informer.New(newSource(), nameOf, informer.Config{}))
		reg, err := other.AddHandler(informer.Handler[string, site]{})
		require.NoError(t, err)
		assert.PanicsWithValue(t, "informer: Deliver called with a handler of another informer", func() { steps.Deliver(reg) })
		assert.PanicsWithValue(t, "informer: Deliver called with a nil handler", func() { steps.Deliver(nil) })
	})
}

func TestReadApplyAndDeliverMayRunConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, in, steps := stepping(t, informer.Config{})
		r := newRecorder(t)
		r.add(in)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, 3)
		loop := func(step func()) {
			for ctx.Err() == nil {
				step()
				runtime.Gosched()
			}
			done <- struct{}{}
		}
		go loop(func() { steps.Read(ctx) })
		go loop(func() { steps.Apply() })
		go loop(func() { deliverAll(steps) })
		for rev := 3; rev < 500; rev++ {
			src.Put(site{Name: fmt.Sprint(rev % 7), Rev: rev})
		}
		require.NoError(t, in.WaitForVersion(t.Context(), src.Version()))
		cancel()
		for range 3 {
			<-done
		}
		deliverAll(steps)
		assert.Equal(t, contents(in), r.state())
	})
}

func TestGoexitOfSourceEndsGoroutineOfReadForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		in := must(informer.New(scripted{list: func(context.Context) (informer.List[site], error) {
			lists++
			runtime.Goexit()
			return informer.List[site]{}, nil
		}}, nameOf, informer.Config{}))
		steps, err := in.Steps(t.Context())
		require.NoError(t, err)
		defer steps.Stop()
		returned, ended := false, make(chan struct{})
		go func() { // ended by the source
			defer close(ended)
			steps.Read(t.Context())
			returned = true
		}()
		<-ended
		assert.False(t, returned)
		assert.False(t, steps.Read(t.Context()))
		assert.False(t, steps.Apply())
		assert.Equal(t, 1, lists)
	})
}

func TestStepsOfZeroInformerPanic(t *testing.T) {
	assert.PanicsWithValue(t, "informer: Steps called on an Informer that New has not made", func() {
		_, _ = new(informer.Informer[string, site]).Steps(t.Context())
	})
}
