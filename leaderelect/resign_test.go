package leaderelect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestResigningLeaderDrainsReleasesAndStaysOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.ReleaseOnCancel, cfg.DrainTimeout = false, -1 })
		a.behave = func(ctx context.Context, l *leaderelect.Leadership) error {
			<-ctx.Done()
			if l.Term() > 1 {
				return nil
			}
			assert.ErrorIs(t, context.Cause(ctx), leaderelect.ErrResigned)
			time.Sleep(time.Minute)
			assert.NoError(t, l.Err(), "the lease is kept while it drains")
			return context.Cause(ctx)
		}
		a.start()
		after(time.Second)
		require.NoError(t, a.Resign(t.Context(), time.Hour))
		released := time.Now()
		first := w.term(t, 1)
		assert.True(t, first.stopped)
		assert.Equal(t, leaderelect.ErrResigned, first.cause)
		assert.Empty(t, w.read().Holder, "regardless of ReleaseOnCancel")
		assert.False(t, a.IsLeader())

		w.write(record{Holder: "x", Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000})
		after(time.Until(released.Add(time.Hour)) - 1)
		require.Equal(t, 1, w.led())
		leader, _ := a.Leader()
		assert.Equal(t, "x", leader.Identity, "it continues to follow")
		after(1 + 2*latency)
		assert.Equal(t, uint64(3), w.term(t, 2).term)
	})
}

func TestResigningLeaderLeavesOthersAChance(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair(t, nil)
		after(time.Second)
		require.NoError(t, a.Resign(t.Context(), 0))
		after(time.Minute)
		assert.True(t, b.IsLeader())
		require.NoError(t, b.stop())
		after(3 * retry)
		assert.True(t, a.IsLeader(), "but not forever")
	})
}

func TestResignDuringClaimReleasesWithoutWork(t *testing.T) {
	handOver := func(t *testing.T, a *party) { require.NoError(t, a.HandOver(t.Context(), "b")) }
	revoke := func(_ *testing.T, a *party) { a.Revoke("b") }
	for name, c := range map[string]struct {
		fault  fault
		resign func(*testing.T, *party)
	}{
		"a slow reply": {slowReply, handOver}, "a lost reply": {lostReply, handOver},
		"a slow reply, of a slot": {slowReply, revoke}, "a lost reply, of a slot": {lostReply, revoke},
	} {
		subWorld(t, name, func(t *testing.T, w *world) {
			w.plan = func(call call) (fault, time.Duration) {
				if call.op == "create" {
					return c.fault, time.Second
				}
				return slowReply, time.Second
			}
			a := w.join(t, "a", nil)
			a.start()
			after(1500 * time.Millisecond) // the claim is under way, or its outcome is read
			require.NotNil(t, w.entry)
			c.resign(t, a)
			after(retry)
			assert.Zero(t, w.led())
			assert.False(t, a.IsLeader())
			rec := w.read()
			assert.Empty(t, rec.Holder)
			assert.Equal(t, "b", rec.Preferred)
			w.heal()
			a.Admit()
			after(time.Minute)
			assert.True(t, a.IsLeader(), "it may take it again, after b has not")
		})
	}
}

func TestResignOfFollowerStaysOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		require.NoError(t, a.Resign(t.Context(), time.Hour))
		resigned := time.Now()
		a.start()
		after(time.Hour - 1)
		require.Zero(t, w.led())
		after(1 + 2*latency)
		require.Equal(t, time.Hour+latency, w.term(t, 1).began.Sub(resigned))
	})
}

func TestLastResignDecidesHowLongElectorStaysOut(t *testing.T) {
	for what, again := range map[string]func(a *party) error{
		"Resign":   func(a *party) error { return a.Resign(t.Context(), time.Minute) },
		"HandOver": func(a *party) error { return a.HandOver(t.Context(), "nobody") },
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			a := w.join(t, "a", nil)
			require.NoError(t, a.Resign(t.Context(), time.Hour))
			require.NoError(t, again(a))
			a.start()
			after(time.Minute + 2*latency)
			require.True(t, a.IsLeader())
		})
	}
}

func TestResignContinuesAfterCallerGivesUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", unhurried)
		a.behave = work{drain: time.Minute}.run
		a.startWith(a.RunOnce)
		after(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, a.Resign(ctx, 0), context.DeadlineExceeded)
		assert.True(t, a.IsLeader(), "it drains")
		after(time.Minute)
		<-a.done
		require.NoError(t, a.err, "RunOnce treats it as the end")
		assert.Empty(t, w.read().Holder)
	})
}

func TestResignWaitsForReleaseInFlight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		a.behave = work{byItself: time.Second, err: errExpected}.run
		w.plan = on("a", "update", 1, slowReply, 3*time.Second)
		a.start()
		after(2 * time.Second) // the work has returned, and the release has no reply yet
		require.False(t, a.IsLeader())
		begin := time.Now()
		require.NoError(t, a.Resign(t.Context(), time.Hour))
		assert.Greater(t, time.Since(begin), time.Second)
		after(time.Minute)
		assert.Equal(t, 1, w.led(), "it stays out")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 20 {
			require.NoError(t, a.Resign(over, time.Hour), "there is nothing left to wait for")
		}
	})
}

func TestDrainAfterResignIsBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.DrainTimeout = 3 * time.Second })
		a.behave = work{drain: time.Hour}.run
		a.start()
		after(time.Second)
		begin := time.Now()
		require.NoError(t, a.Resign(t.Context(), time.Hour))
		assert.Equal(t, 3*time.Second+latency, time.Since(begin))
		require.ErrorIs(t, w.term(t, 1).cause, leaderelect.ErrDrainTimeout)
		assert.Empty(t, w.read().Holder)
	})
}

func TestHandOverGoesToSuccessor(t *testing.T) {
	for what, change := range map[string]func(*leaderelect.Config){"polling": nil, "watching": watched} {
		for _, successor := range []string{"a", "c", "d"} { // even if it would not be first otherwise
			subWorld(t, what+" to "+successor, func(t *testing.T, w *world) {
				b := w.join(t, "b", change)
				b.start()
				after(time.Second)
				for _, name := range []string{"a", "c", "d"} {
					w.join(t, name, change).start()
					after(300 * time.Millisecond)
				}
				require.NoError(t, b.HandOver(t.Context(), successor))
				released := time.Now()
				after(3 * retry)
				second := w.term(t, 2)
				assert.Equal(t, successor, second.party)
				if what == "watching" {
					assert.Less(t, second.began.Sub(released), 2*latency)
				}
				after(time.Minute)
				assert.Equal(t, 2, w.led())
			})
		}
	}
}

func TestHandOverToAbsentSuccessorGoesToAnyone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, _ := w.pair(t, nil)
		after(time.Second)
		require.NoError(t, a.HandOver(t.Context(), "nobody"))
		after(4 * retry)
		require.Equal(t, 1, w.led())
		after(2 * retry)
		require.Equal(t, 2, w.led())
		assert.Empty(t, w.read().Preferred, "it is logged only once")
	})
}

func TestHandOverAppliesToOneRelease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.leader(t, nil)
		require.NoError(t, a.HandOver(t.Context(), "a"))
		assert.Equal(t, "a", w.read().Preferred)
		after(time.Minute)
		require.True(t, a.IsLeader())
		require.NoError(t, a.Resign(t.Context(), 0))
		assert.Empty(t, w.read().Preferred)
	})
}

func TestResigningLeaderReleasesEvenIfCanceled(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.ReleaseOnCancel = false })
		a.behave = work{drain: 3 * time.Second}.run
		a.start()
		after(time.Second)
		time.AfterFunc(time.Second, func() { a.cancel(context.Canceled) })
		require.NoError(t, a.Resign(t.Context(), 0))
		assert.Empty(t, w.read().Holder)
	})
}

func TestErrorOfWorkAfterResignIsReturnedByRunOnce(t *testing.T) {
	for _, own := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			a := w.join(t, "a", nil)
			a.behave = func(ctx context.Context, _ *leaderelect.Leadership) error {
				<-ctx.Done()
				if own {
					return errNetwork
				}
				return context.Cause(ctx)
			}
			ended := make(chan error, 1)
			go func() { ended <- a.RunOnce(t.Context()) }() // ends after the Resign
			after(time.Second)
			require.NoError(t, a.Resign(t.Context(), 0))
			if err := <-ended; own {
				require.ErrorIs(t, err, errNetwork)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestTermResignedBeforeWorkIsNotReported(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "create", 1, slowReply, time.Second)
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { t.Error("it has not stopped") }
		})
		a.start()
		after(500 * time.Millisecond)
		require.NoError(t, a.Resign(t.Context(), time.Hour))
		after(time.Minute)
		require.Zero(t, w.led())
		require.Empty(t, w.read().Holder)
		require.NoError(t, a.stop())
	})
}
