package leaderelect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// These are the cases in which client-go has two leaders. Each test fails if two electors work at the same time, because world
// checks that.

func TestBlackHoleWithReleaseOnCancelHasOneLeader(t *testing.T) {
	for _, when := range []time.Duration{0, retry / 2, retry, 2*retry + latency} {
		inWorld(t, func(t *testing.T, w *world) {
			a, b := w.join(t, "a", nil), w.join(t, "b", nil)
			a.behave = work{linger: stepDown}.run
			startBoth(a, b)
			after(3*time.Second + when)
			w.cut("a", time.Hour)
			after(lease + 2*retry)

			first, second := w.term(t, 1), w.term(t, 2)
			assert.Equal(t, "a", first.party)
			require.ErrorIs(t, first.cause, leaderelect.ErrLeaseExpired)
			assert.Equal(t, stepDown, first.returned.Sub(first.leadership.Deadline()))
			assert.Equal(t, "b", second.party)
			assert.True(t, b.IsLeader())
			assert.False(t, a.IsLeader())
		})
	}
}

func TestSlowReplyThenPartitionHasOneLeader(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second, 4900 * time.Millisecond, 7900 * time.Millisecond} {
		inWorld(t, func(t *testing.T, w *world) {
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.RequestTimeout = 9 * time.Second })
			a.behave = work{linger: stepDown}.run
			var sent time.Time
			w.plan = func(c call) (fault, time.Duration) {
				switch {
				case c.party != "a" || c.op != "update":
					return none, 0
				case sent.IsZero():
					sent = c.now
					return slowReply, delay
				default:
					return partition, time.Hour
				}
			}
			a.start()
			after(time.Millisecond)
			w.join(t, "b", nil).start()
			after(lease + 10*retry)

			first, second := w.term(t, 1), w.term(t, 2)
			assert.Equal(t, renew, first.leadership.Deadline().Sub(sent), "counted from before the request")
			assert.Equal(t, renew+stepDown, first.returned.Sub(sent))
			assert.Equal(t, "b", second.party)
		})
	}
}

func TestLateReleaseDoesNotTouchSuccessorsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair(t, nil)
		after(time.Second)
		w.mu.Lock()
		w.plan = func(c call) (fault, time.Duration) {
			if c.party == "a" && c.op == "update" {
				return slowRequest, time.Minute
			}
			return none, 0
		}
		w.mu.Unlock()
		require.NoError(t, a.stop())
		after(2 * time.Minute)

		assert.Equal(t, "b", w.term(t, 2).party)
		assert.True(t, b.IsLeader())
		assert.Equal(t, "b", w.read().Holder)
		assert.Equal(t, uint64(2), w.read().Term)
	})
}

func TestDrainOfEightSecondsKeepsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, "a", nil), w.join(t, "b", nil)
		a.behave = func(ctx context.Context, l *leaderelect.Leadership) error {
			<-ctx.Done()
			for range 8 {
				time.Sleep(time.Second)
				assert.NoError(t, l.Err())
				assert.NoError(t, l.Context().Err())
			}
			return nil
		}
		startBoth(a, b)
		after(20 * time.Second)
		canceled := time.Now()
		require.NoError(t, a.stop())

		first := w.term(t, 1)
		assert.Equal(t, 8*time.Second, first.returned.Sub(canceled))
		assert.Equal(t, latency, time.Since(first.returned), "it returns after one write, the release")
		after(retry*12/10 + 2*latency)
		second := w.term(t, 2)
		assert.Equal(t, "b", second.party)
		assert.Less(t, second.began.Sub(first.returned), retry*12/10+2*latency)
	})
}

func TestSameIdentityNeverLeadsTwice(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		same := func(cfg *leaderelect.Config) { cfg.Identity = "pod-0" }
		a, b := w.join(t, "a", same), w.join(t, "b", same)
		a.start()
		after(time.Millisecond)
		b.start()
		after(time.Minute)
		require.True(t, a.IsLeader())
		require.False(t, b.IsLeader())
		require.Equal(t, 1, w.led())

		// Nor does one that starts again inherit the lease of the one that was killed.
		w.cut("a", time.Hour)
		after(lease + 2*retry)
		assert.True(t, b.IsLeader())
		assert.Equal(t, uint64(2), w.term(t, 2).term)
		leader, ok := b.Leader()
		assert.True(t, ok)
		assert.Equal(t, "pod-0", leader.Identity)
		assert.NotEqual(t, w.history()[0].rec().Incarnation, leader.Incarnation)
	})
}
