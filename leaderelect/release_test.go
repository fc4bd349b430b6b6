package leaderelect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestReleaseLeavesTombstoneOfSameTerm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.leader(t, nil)
		held := w.read()
		require.NoError(t, a.stop())
		rec := w.read()
		assert.Empty(t, rec.Holder)
		assert.Equal(t, held.Term, rec.Term)
		assert.Equal(t, held.Incarnation, rec.Incarnation)
		assert.Equal(t, held.Renewal+1, rec.Renewal)
		assert.Equal(t, held.LeaseMillis, rec.LeaseMillis)
		assert.Equal(t, held.Term, w.history()[1].entry.Term)

		a.start() // and its own tombstone is as free as any
		after(2 * latency)
		assert.Equal(t, uint64(2), w.term(t, 2).term)
	})
}

func TestLeaseStaysWithoutReleaseOnCancel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.ReleaseOnCancel = false })
		b := w.join(t, "b", nil)
		a.start()
		after(time.Second)
		begin := time.Now()
		require.NoError(t, a.stop())
		assert.Equal(t, begin, time.Now(), "without a call")
		assert.Equal(t, "a", w.read().Holder)
		b.start()
		after(lease)
		require.False(t, b.IsLeader())
		after(time.Second)
		require.True(t, b.IsLeader())
	})
}

func TestRelease(t *testing.T) {
	for what, c := range map[string]struct {
		fault    fault
		d        time.Duration
		takes    time.Duration
		released bool
	}{
		"that is acknowledged":           {none, 0, latency, true},
		"whose reply is lost":            {lostReply, 0, latency/2 + latency, true},
		"whose request is lost":          {lostRequest, 0, 2 * latency, true},
		"that a retry makes a conflict":  {conflictAfter, 0, latency + latency, true},
		"that conflicts with an old one": {falseConflict, 0, latency + latency + latency, true},
		"that has no reply":              {stall, 0, request, false},
		"whose reply is slow":            {slowReply, 2 * time.Second, latency + 2*time.Second, true},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.plan = on("a", "update", 1, c.fault, c.d)
			a := w.leader(t, nil)
			begin := time.Now()
			require.NoError(t, a.stop())
			if c.fault == falseConflict {
				c.takes -= latency // the conflict comes at half time, twice
			}
			assert.InDelta(t, c.takes, time.Since(begin), float64(latency))
			assert.Equal(t, c.released, w.read().Holder == "")
			_, ok := a.Leader()
			assert.Equal(t, !c.released, ok)
		})
	}
}

func TestReleaseResolvesAmbiguousLastRenewal(t *testing.T) {
	for range 10 { // when the renewal has failed, the next is due and the work has returned: whatever is seen first
		inWorld(t, func(t *testing.T, w *world) {
			w.plan = func(c call) (fault, time.Duration) {
				if at := w.at(c.now); at > time.Second && at < 7*time.Second {
					return stallLate, 0 // the renewal happens without a reply
				}
				return none, 0
			}
			a := w.join(t, "a", patient)
			a.start()
			after(6 * time.Second)
			a.cancel(context.Canceled)
			after(time.Minute)
			require.Empty(t, w.read().Holder)
			require.Equal(t, uint64(3), w.read().Renewal, "the claim, the renewal, the release, and nothing else")
			require.NoError(t, a.stop())
		})
	}
}

func TestLostLeaseIsNotReleased(t *testing.T) {
	for what, lose := range map[string]func(w *world){
		"expired": func(w *world) { w.cut("a", renew+retry) },
		"taken": func(w *world) {
			w.write(record{Holder: "x", Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000})
		},
		"forgotten": func(w *world) { w.meddle(deleteRecord, 0) },
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			a := w.join(t, "a", nil)
			a.startWith(a.RunOnce)
			after(time.Second)
			lose(w)
			<-a.done
			require.Error(t, a.err)
			after(time.Minute)
			for _, c := range w.history() {
				assert.NotEmpty(t, c.rec().Holder)
			}
		})
	}
}

func TestClaimInFlightAtCancelIsReleased(t *testing.T) {
	for what, f := range map[string]fault{"with a slow reply": slowReply, "without a reply": stallLate, "with a reply that is lost": lostReply} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.plan = on("a", "create", 1, f, 3*time.Second)
			a := w.join(t, "a", nil)
			a.start()
			after(latency + latency/2) // it has arrived
			require.NoError(t, a.stop())
			assert.Empty(t, w.read().Holder)
			assert.Equal(t, uint64(1), w.read().Term)
			assert.Zero(t, w.led(), "nothing was started")
			assert.LessOrEqual(t, w.at(time.Now()), request+4*latency)
		})
	}
}

func TestNoLeaderDuringRelease(t *testing.T) {
	// The claim of a happens without a reply; a is canceled, and releases what it may have; the tombstone takes its
	// time; and a starts again. If it led the term of its claim, the tombstone would free the lease under its feet.
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = func(c call) (fault, time.Duration) {
			switch {
			case c.party == "a" && c.op == "create":
				return stallLate, 0
			case c.party == "a" && c.op == "update" && w.at(c.now) < 2*time.Second:
				return slowRequest, 3 * time.Second
			}
			return none, 0
		}
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.RetryPeriod = 5 * time.Second
			cfg.RequestTimeout = time.Second
		})
		b := w.join(t, "b", nil)
		a.start()
		after(500 * time.Millisecond)
		require.NoError(t, a.stop())
		require.Less(t, w.at(time.Now()), 3*time.Second)
		a.start()
		after(10 * time.Millisecond)
		assert.True(t, a.IsLeader())
		assert.Equal(t, uint64(2), w.term(t, 1).term)
		b.start()
		after(20 * time.Second)
		assert.Equal(t, 1, w.led())
	})
}

func TestLeaseIsRenewedDuringDrainAndReleasedAfterwards(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", unhurried)
		a.behave = work{drain: time.Minute}.run
		a.start()
		after(time.Second)
		stop := errors.New("a new version is there")
		a.cancel(stop)
		after(59 * time.Second)
		first := w.term(t, 1)
		require.True(t, first.returned.IsZero())
		require.True(t, a.IsLeader())
		require.NoError(t, first.leadership.Err())
		require.NoError(t, first.leadership.Context().Err())
		after(time.Second + latency)
		require.NoError(t, a.stop())
		first = w.term(t, 1)
		require.ErrorIs(t, first.cause, stop)
		assert.Len(t, w.history(), 1+30+1)
	})
}

func TestDrainTimeoutEndsLeadershipEvenIfStoreHangs(t *testing.T) {
	for _, f := range []fault{none, stall, hang} {
		inWorld(t, func(t *testing.T, w *world) {
			w.plan = from("a", "update", 1, f)
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.DrainTimeout = 3 * time.Second })
			a.behave = func(_ context.Context, l *leaderelect.Leadership) error {
				<-l.Context().Done() // it does not notice the caller
				return l.Err()
			}
			a.start()
			after(3 * time.Second) // a renewal hangs
			a.cancel(context.Canceled)
			after(3*time.Second - 1)
			l := w.term(t, 1).leadership
			require.NoError(t, l.Err())
			after(1)
			require.ErrorIs(t, l.Err(), leaderelect.ErrDrainTimeout)
			require.ErrorIs(t, context.Cause(l.Context()), leaderelect.ErrDrainTimeout)
			assert.False(t, w.term(t, 1).returned.IsZero())
			require.ErrorIs(t, w.term(t, 1).cause, leaderelect.ErrDrainTimeout)
			after(latency)
			if f == none {
				assert.Empty(t, w.read().Holder, "we still held the lease")
			}
			w.end()
		})
	}
}

func TestLeaseLostDuringDrainEndsDrain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		a.behave = work{drain: time.Minute}.run
		a.start()
		after(time.Second)
		a.cancel(context.Canceled)
		w.write(record{Holder: "x", Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000})
		after(retry)
		first := w.term(t, 1)
		require.False(t, first.returned.IsZero())
		require.ErrorIs(t, first.cause, leaderelect.ErrLeaseTaken)
		require.NoError(t, a.stop(), "the caller had canceled")
	})
}

func TestClaimRestoredFromBackupIsNotReleased(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "create", 1, cutAfter, 20*time.Second)
		a, b := w.pair(t, nil)
		after(30 * time.Second)
		require.True(t, b.IsLeader(), "of term 2: only a knows that it has claimed term 1")
		leader, _ := a.Leader()
		require.Equal(t, uint64(2), leader.Term)

		w.meddle(rollBack, 0)
		require.Equal(t, "a", w.read().Holder)
		writes := len(w.history())
		require.NoError(t, a.stop())
		assert.Len(t, w.history(), writes, "it has seen term 2, so what it finds is not its own any more")
		a.start()
		after(retry + latency)
		require.ErrorIs(t, w.term(t, 1).cause, leaderelect.ErrStoreRegressed)
		after(2 * lease)
		assert.Equal(t, uint64(3), w.term(t, 2).term)
	})
}
