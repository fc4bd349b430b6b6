package leaderelect_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// pause is the jitter before a takeover, with the Rand of the tests.
const pause = 25 * time.Millisecond

func TestTakeoverWaitsRecordsLeaseFromReply(t *testing.T) {
	for what, c := range map[string]struct {
		millis int64
		want   time.Duration
	}{
		"longer than ours":  {30_000, 30 * time.Second},
		"longer than any":   {math.MaxInt64, 24 * time.Hour},
		"shorter than ours": {5_000, 5 * time.Second},
		"none":              {0, lease},
		"negative":          {-1, lease},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.write(record{Holder: "x", Incarnation: "x", Term: 6, Renewal: 1, LeaseMillis: c.millis})
			w.plan = on("a", "get", 1, slowReply, 3*time.Second)
			w.join(t, "a", patient).start()
			seen := 3*time.Second + latency
			after(seen + c.want + pause - 1)
			require.Equal(t, uint64(6), w.read().Term)
			after(1 + latency)
			first := w.term(t, 1)
			assert.Equal(t, uint64(7), first.term)
			assert.Equal(t, seen+c.want+pause+latency, w.at(first.began))
		})
	}
}

func TestUnseenRenewalPreventsTakeover(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, "a", nil), w.join(t, "b", nil)
		a.start()
		after(time.Second)
		w.plan = func(c call) (fault, time.Duration) {
			if c.party == "b" && c.op == "get" && c.now.Sub(w.begin) > time.Second {
				return stall, 0 // it has seen the record once
			}
			return none, 0
		}
		b.start()
		after(2 * time.Minute)
		assert.True(t, a.IsLeader())
		assert.Equal(t, 1, w.led())
	})
}

func TestElectorRetakesOwnExpiredLeaseWithNextTerm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = func(c call) (fault, time.Duration) {
			if at := w.at(c.now); at > time.Second && at < renew+time.Second {
				return lostRequest, 0
			}
			return none, 0
		}
		w.join(t, "a", nil).start()
		after(lease)
		end := latency + renew
		require.Equal(t, end, w.at(w.term(t, 1).returned))
		second := w.term(t, 2)
		assert.Equal(t, uint64(2), second.term)
		assert.Equal(t, end+retry*11/10+2*latency, w.at(second.began), "at the first successful read")
	})
}

func TestRestoredRecordWithRaisedTermIsNotOwn(t *testing.T) {
	for how, change := range map[string]func(*leaderelect.Config){"polling": nil, "watching": watched} {
		subWorld(t, how, func(t *testing.T, w *world) {
			a, b := w.join(t, "a", change), w.join(t, "b", change)
			for _, p := range []*party{a, b} {
				p.behave = work{linger: stepDown}.run
			}
			a.start()
			after(time.Second)
			b.start()
			after(time.Second)
			require.NoError(t, a.HandOver(t.Context(), "b"))
			after(5 * retry)
			require.True(t, b.IsLeader())
			leads := w.term(t, 2)

			w.meddle(raise, pickOf(w, "a"))
			restored := time.Now()
			require.Equal(t, "a", w.read().Holder)
			require.Equal(t, leads.term+1, w.read().Term)
			after(lease)
			assert.Equal(t, 2, w.led(), "nobody takes it earlier")
			after(retry)
			next := w.term(t, 3)
			assert.Equal(t, leads.term+2, next.term, "the term after the raised one")
			assert.GreaterOrEqual(t, next.began.Sub(restored), lease)
			assert.ErrorIs(t, w.term(t, 2).cause, leaderelect.ErrLeaseTaken)
		})
	}
}

// pickOf returns the duration by which [raise] picks the records of a party, which has written.
func pickOf(w *world, party string) time.Duration {
	incarnations := make(map[string]bool)
	var own string
	for _, c := range w.history() {
		incarnations[c.rec().Incarnation] = true
		if c.party == party {
			own = c.rec().Incarnation
		}
	}
	return time.Duration(slices.Index(slices.Sorted(maps.Keys(incarnations)), own)) * time.Millisecond
}

func TestForgetfulStoreIsDistrustedForOneLease(t *testing.T) {
	for what, forget := range map[string]func(w *world){
		"the record was deleted": func(w *world) { w.meddle(deleteRecord, 0) },
		"an older renewal":       func(w *world) { w.meddle(rollBack, 0) },
		"an older term": func(w *world) {
			w.write(record{Holder: "a", Incarnation: "old", Term: 1, Renewal: 1, LeaseMillis: 15_000})
		},
		"an older tombstone": func(w *world) {
			w.write(record{Incarnation: "old", Term: 1, Renewal: 1, LeaseMillis: 15_000})
		},
		"the same term of another": func(w *world) {
			w.write(record{Incarnation: "other", Term: 5, Renewal: 100, LeaseMillis: 15_000})
		},
		"an older unreadable one": func(w *world) { w.write(record{}) },
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.write(record{Incarnation: "old", Term: 4, Renewal: 1, LeaseMillis: 15_000})
			w.mu.Lock()
			w.first = nil
			w.mu.Unlock()
			a := w.join(t, "a", nil)
			a.start()
			after(5 * time.Second)
			w.mu.Lock()
			w.forgot = true
			w.mu.Unlock()
			forget(w)
			require.Equal(t, uint64(5), w.term(t, 1).term)
			after(retry)
			first := w.term(t, 1)
			require.ErrorIs(t, first.leadership.Err(), leaderelect.ErrStoreRegressed)
			require.ErrorIs(t, first.cause, leaderelect.ErrStoreRegressed)
			require.ErrorIs(t, context.Cause(first.leadership.Context()), leaderelect.ErrStoreRegressed)

			noticed := w.at(first.returned)
			after(time.Until(first.returned) + latency + lease + pause - 1)
			require.Equal(t, 1, w.led(), "it waits, even for its own record")
			after(2 * latency)
			second := w.term(t, 2)
			assert.Equal(t, uint64(6), second.term, "after the greatest term seen")
			assert.Equal(t, noticed+latency+lease+pause+latency, w.at(second.began))
		})
	}
}

func TestFollowerIgnoresOlderRecordOfRenewingLeader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(record{Holder: "x", Incarnation: "x", Term: 9, Renewal: 1, LeaseMillis: 15_000})
		w.mu.Lock()
		w.forgot = true
		w.mu.Unlock()
		a := w.leader(t, nil)
		for n := range uint64(20) { // a backup was restored, and one of then leads
			w.write(record{Holder: "y", Incarnation: "y", Term: 3, Renewal: n, LeaseMillis: 15_000})
			after(retry)
		}
		require.Zero(t, w.led())
		leader, ok := a.Leader()
		require.True(t, ok)
		assert.Equal(t, "y", leader.Identity)
		after(lease + 2*retry)
		assert.Equal(t, uint64(10), w.term(t, 1).term)
	})
}

func TestDeletedRecordIsRecreatedWithNextTermAfterLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(record{Incarnation: "x", Term: 6, Renewal: 1, LeaseMillis: 20_000})
		b := w.join(t, "b", nil)
		w.plan = on("b", "get", 2, deleteRecord, 0)
		w.mu.Lock()
		w.writeLocked(record{Holder: "x", Incarnation: "x", Term: 7, Renewal: 1, LeaseMillis: 20_000})
		w.mu.Unlock()
		b.start()
		look := latency + retry*11/10 + latency // with half of the jitter
		after(look + 20*time.Second + pause - 1)
		require.Len(t, w.history(), 2)
		after(1 + latency)
		assert.Equal(t, uint64(8), w.term(t, 1).term)
	})
}

func TestFollowersPollEveryRetryPeriodWithJitter(t *testing.T) {
	for _, random := range []float64{0, 0.25, 0.999} {
		inWorld(t, func(t *testing.T, w *world) {
			var looks []time.Duration
			w.write(record{Holder: "x", Incarnation: "x", Term: 1, Renewal: 1, LeaseMillis: 60_000})
			w.plan = func(c call) (fault, time.Duration) {
				looks = append(looks, w.at(c.now))
				return none, 0
			}
			w.join(t, "a", func(cfg *leaderelect.Config) { cfg.Rand = func() float64 { return random } }).start()
			after(time.Minute + 60*time.Millisecond)
			period := latency + retry + time.Duration(random*0.2*float64(retry))
			for i, at := range looks[:len(looks)-1] {
				require.InDelta(t, time.Duration(i)*period, at, 1000) // nanoseconds, of rounding
			}
			takeover := time.Minute + latency + time.Duration(random*float64(50*time.Millisecond))
			assert.InDelta(t, takeover, looks[len(looks)-1], 1000, "and up to 50ms before a takeover")
		})
	}
}

func TestRejectedWritesDoNotIncreaseRequestRate(t *testing.T) {
	for _, f := range []fault{lostRequest, falseConflict} {
		inWorld(t, func(t *testing.T, w *world) {
			writes := 0
			w.plan = func(c call) (fault, time.Duration) {
				if c.op == "get" {
					return none, 0
				}
				writes++
				return f, 0
			}
			w.join(t, "a", nil).start()
			after(time.Minute)
			assert.InDelta(t, time.Minute/retry, writes, 1)
		})
	}
}

func TestReleaseRemembersForeignTerm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "create", 1, stall, 0)
		a := w.leader(t, nil)
		w.write(record{Holder: "x", Incarnation: "x", Term: 5, Renewal: 1, LeaseMillis: 15_000})
		require.NoError(t, a.stop(), "it resolves its claim")
		w.mu.Lock()
		w.forgot = true
		w.mu.Unlock()
		w.write(record{Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000}) // from a backup
		a.start()
		after(lease)
		require.Zero(t, w.led(), "an old tombstone is not free")
		after(time.Second)
		assert.Equal(t, uint64(6), w.term(t, 1).term)
	})
}

func TestOwnRecordIsNotFreeAfterAnotherHolder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(record{Incarnation: "x", Term: 4, Renewal: 1, LeaseMillis: 15_000})
		w.join(t, "a", nil).start()
		after(5 * time.Second)
		require.Equal(t, uint64(5), w.term(t, 1).term)
		w.mu.Lock()
		own := *w.entry
		w.forgot = true
		w.mu.Unlock()
		w.cut("a", renew)
		after(renew + 2*time.Second)
		for n := range uint64(4) { // a backup was restored, and y, which has never seen term 5, leads
			w.write(record{Holder: "y", Incarnation: "y", Term: 3, Renewal: n, LeaseMillis: 15_000})
			after(retry)
		}
		require.Equal(t, 1, w.led())
		w.mu.Lock()
		w.putLocked("backup", own) // another backup
		w.mu.Unlock()
		after(lease)
		require.Equal(t, 1, w.led(), "y may still work")
		after(2 * retry)
		assert.Equal(t, uint64(6), w.term(t, 2).term)
	})
}
