package leaderelect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

func TestElectorRunsOnceAtATime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.leader(t, nil)
		require.ErrorIs(t, a.Run(context.Background()), leaderelect.ErrRunning)
		require.ErrorIs(t, a.RunOnce(context.Background()), leaderelect.ErrRunning)
		require.True(t, a.IsLeader(), "the first is not affected")
		require.NoError(t, a.stop())
		a.startWith(a.RunOnce)
		after(time.Second)
		assert.Equal(t, uint64(2), w.term(t, 2).term)
	})
}

func TestFollowerStopsImmediatelyOnCancel(t *testing.T) {
	for _, f := range []fault{none, stall} {
		inWorld(t, func(t *testing.T, w *world) {
			w.write(record{Holder: "x", Incarnation: "x", Term: 1, Renewal: 1, LeaseMillis: 15_000})
			w.plan = from("a", "get", 2, f)
			a := w.join(t, "a", nil)
			a.start()
			after(3 * time.Second)
			begin := time.Now()
			require.NoError(t, a.stop())
			assert.Equal(t, begin, time.Now())
		})
	}
}

func TestWorkReturningByItselfGivesOthersAChance(t *testing.T) {
	for what, c := range map[string]struct {
		work work
		want error
	}{
		"nil":      {work{byItself: time.Second}, nil},
		"an error": {work{byItself: time.Second, err: errExpected}, errExpected},
		"a panic":  {work{byItself: time.Second, err: errExpected, panics: true}, errExpected},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.ReleaseOnCancel = false })
			a.behave = c.work.run
			a.start()
			after(time.Second + 3*latency)
			require.Empty(t, w.read().Holder, "released in any case")
			first := w.term(t, 1)
			if c.want == nil {
				require.NoError(t, first.cause)
			} else {
				require.ErrorIs(t, first.cause, c.want)
			}
			var crash *wait.PanicError
			require.Equal(t, c.work.panics, errors.As(first.cause, &crash))
			require.ErrorIs(t, first.leadership.Err(), leaderelect.ErrTermEnded)

			after(2*retry - latency)
			require.Equal(t, 1, w.led())
			after(4 * latency)
			assert.Equal(t, 2, w.led())
			w.join(t, "b", nil).start()
			after(time.Minute)
			assert.Equal(t, "b", w.terms[w.led()-1].party, "one leader whose work continues")
		})
	}
}

func TestRunOnceLeadsForOneTerm(t *testing.T) {
	type lost = func(w *world, a *party)
	nothing := func(*world, *party) {}
	cancel := func(_ *world, a *party) { a.cancel(errors.New("stop")) }
	for what, c := range map[string]struct {
		happens lost
		work    func(context.Context, *leaderelect.Leadership) error
		want    []error
	}{
		"the work returns nil": {nothing, work{byItself: time.Second}.run, nil},
		"the work fails":       {nothing, work{byItself: time.Second, err: errExpected}.run, []error{errExpected}},
		"the work gives up by itself": {nothing, work{byItself: time.Second, err: context.Canceled}.run,
			[]error{context.Canceled}},
		"the caller cancels":                 {cancel, nil, nil},
		"the caller cancels, the work fails": {cancel, failing, []error{errExpected}},
		"the lease expires": {func(w *world, _ *party) { w.cut("a", time.Hour) }, nil,
			[]error{leaderelect.ErrLeaseExpired}},
		"the lease expires, the work fails": {func(w *world, _ *party) { w.cut("a", time.Hour) }, failing,
			[]error{leaderelect.ErrLeaseExpired, errExpected}},
		"the lease is taken": {func(w *world, _ *party) { w.meddle(foreignWrite, 0) }, nil,
			[]error{leaderelect.ErrLeaseTaken}},
		"the store forgets": {func(w *world, _ *party) { w.meddle(deleteRecord, 0) }, nil,
			[]error{leaderelect.ErrStoreRegressed}},
		"the drain takes too long": {cancel, work{drain: time.Minute}.run, []error{leaderelect.ErrDrainTimeout}},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.DrainTimeout = time.Second })
			a.behave = c.work
			a.startWith(a.RunOnce)
			after(500 * time.Millisecond)
			require.True(t, a.IsLeader())
			c.happens(w, a)
			after(lease)
			select {
			case <-a.done:
			default:
				t.Fatal("it goes on")
			}
			if c.want == nil {
				require.NoError(t, a.err)
			}
			for _, want := range c.want {
				require.ErrorIs(t, a.err, want)
			}
			require.Equal(t, 1, w.led())
		})
	}
}

// failing is work that fails when its context ends.
func failing(ctx context.Context, _ *leaderelect.Leadership) error {
	<-ctx.Done()
	return errExpected
}

func TestWorkContextHasCauseAndValues(t *testing.T) {
	type valueKey struct{}
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		stop := errors.New("stop")
		a.behave = func(ctx context.Context, l *leaderelect.Leadership) error {
			for _, ctx := range []context.Context{ctx, l.Context()} {
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				for _, ctx := range []context.Context{ctx, child} {
					got, ok := leaderelect.FromContext(ctx)
					assert.True(t, ok)
					assert.Same(t, l, got)
					assert.Equal(t, "v", ctx.Value(valueKey{}))
				}
			}
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), stop)
			assert.NoError(t, l.Context().Err())
			return stop
		}
		ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), valueKey{}, "v"))
		time.AfterFunc(time.Second, func() { cancel(stop) })
		require.NoError(t, a.Run(ctx))
		require.Equal(t, stop, w.term(t, 1).cause, "and nothing that only repeats it")

		_, ok := leaderelect.FromContext(ctx)
		assert.False(t, ok)
	})
}

func TestLeftoverWorkIsStoppedBeforeRelease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var stopped func()
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			on := cfg.OnStoppedLeading
			cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) {
				stopped()
				on(l, cause)
			}
		})
		var left, last context.Context
		a.behave = func(ctx context.Context, l *leaderelect.Leadership) error {
			left, last = ctx, l.Context()
			return nil
		}
		stopped = func() {
			assert.ErrorIs(t, context.Cause(left), leaderelect.ErrTermEnded)
			assert.NoError(t, context.Cause(last), "cleanup may still write")
		}
		released := false
		w.mu.Lock()
		check := w.onCommit
		w.onCommit = func(c commit) {
			if c.releases() {
				released = true
				assert.ErrorIs(t, context.Cause(left), leaderelect.ErrTermEnded)
				assert.ErrorIs(t, context.Cause(last), leaderelect.ErrTermEnded)
				assert.False(t, a.IsLeader())
			}
			check(c)
		}
		w.mu.Unlock()
		require.NoError(t, a.RunOnce(context.Background()))
		assert.True(t, released)
	})
}

func TestHangingStoreIsReportedAndBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = func(c call) (fault, time.Duration) {
			if w.at(c.now) < time.Second {
				return none, 0
			}
			return hang, 0
		}
		a := w.join(t, "a", nil)
		a.start()
		after(time.Hour)
		require.False(t, a.IsLeader())
		require.False(t, w.term(t, 1).returned.IsZero(), "its work was stopped anyway")
		assert.Equal(t, 2+8, w.calls, "eight hang, and no more are made")
		begin := time.Now()
		err := a.stop()
		require.ErrorIs(t, err, leaderelect.ErrStoreStuck)
		require.ErrorContains(t, err, "8 calls")
		assert.Equal(t, grace, time.Since(begin))

		w.heal()
		after(time.Second)
		a.start()
		after(time.Second)
		require.True(t, a.IsLeader(), "it works again when they have returned")
	})
}

// The time for a call to notice the end of its context depends on the machine and the driver, not on the lease.
func TestLateCallIsNotStuckWithShortLease(t *testing.T) {
	for what, late := range map[string]time.Duration{"late": grace, "too late": grace + time.Second} {
		subWorld(t, what, func(t *testing.T, w *world) {
			ended := make(chan time.Time, 1)
			a := w.join(t, "a", func(cfg *leaderelect.Config) {
				cfg.LeaseDuration, cfg.ReleaseOnCancel = 300*time.Millisecond, false // a call has 50 ms
				cfg.Store = lateUpdate{cfg.Store.(link), late, ended}
			})
			a.start()
			after(60 * time.Millisecond) // the first renewal is in flight
			require.True(t, a.IsLeader())
			err := a.stop()
			took := time.Since(<-ended)
			if late > grace {
				require.ErrorIs(t, err, leaderelect.ErrStoreStuck)
			} else {
				require.NoError(t, err)
			}
			assert.InDelta(t, grace, took, float64(2*latency), "it reads the record once more before it waits")
			after(time.Second)
		})
	}
}

// lateUpdate is a store whose first update returns late after the end of its context.
type lateUpdate struct {
	link
	late  time.Duration
	ended chan time.Time // gets the time when that context has ended; capacity 1
}

func (l lateUpdate) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	select {
	case l.ended <- time.Time{}:
	default:
		return l.link.Update(ctx, e)
	}
	<-ctx.Done()
	<-l.ended
	l.ended <- time.Now()
	time.Sleep(l.late)
	return leaderelect.Entry{}, ctx.Err()
}
