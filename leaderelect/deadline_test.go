package leaderelect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestDeadlineCountsFromBeforeSend(t *testing.T) {
	for what, plan := range map[string]func(call) (fault, time.Duration){
		"the claim":   on("a", "create", 1, slowReply, 3*time.Second),
		"the renewal": on("a", "update", 1, slowReply, 3*time.Second),
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.plan = plan
			a := w.join(t, "a", patient)
			a.start()
			sent := latency // the read comes first
			if what == "the renewal" {
				sent += retry
			}
			after(sent + latency + 3*time.Second)
			require.True(t, a.IsLeader())
			l := w.term(t, 1).leadership
			assert.Equal(t, sent+renew, w.at(l.Deadline()))
			after(latency) // it is behind with the next one
			assert.Equal(t, sent+latency+3*time.Second+renew, w.at(l.Deadline()))
		})
	}
}

func TestNoCallDelaysEndOfLease(t *testing.T) {
	for _, f := range []fault{stall, stallLate, hang, hangLate, lostRequest, lostReply} {
		inWorld(t, func(t *testing.T, w *world) {
			w.plan = func(c call) (fault, time.Duration) {
				if c.n <= 2 { // a read, a claim
					return none, 0
				}
				return f, 0
			}
			a := w.join(t, "a", nil)
			a.start()
			after(2 * latency)
			l := w.term(t, 1).leadership
			end := latency + renew // later renewals had no reply
			assert.Equal(t, end, w.at(l.Deadline()))

			after(end - 2*latency - 1)
			require.NoError(t, l.Err())
			require.NoError(t, l.Context().Err())
			require.True(t, a.IsLeader())
			after(1)
			require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseExpired)
			require.ErrorIs(t, context.Cause(l.Context()), leaderelect.ErrLeaseExpired)
			require.False(t, a.IsLeader())
			assert.Equal(t, end, w.at(w.term(t, 1).returned))
		})
	}
}

func TestReplyAfterPauseIsIgnored(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "update", 1, slowReply, 8500*time.Millisecond)
		w.leader(t, func(cfg *leaderelect.Config) { cfg.RequestTimeout = 9 * time.Second })
		l := w.term(t, 1).leadership
		l.StopTimer()
		after(latency + renew + 500*time.Millisecond)
		renewal := w.history()[1]
		require.Less(t, w.at(renewal.at), w.at(l.Deadline()), "it has happened in time, but without a reply")
		require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseExpired)
		require.Equal(t, latency+renew, w.at(l.Deadline()))
		require.ErrorIs(t, w.term(t, 1).cause, leaderelect.ErrLeaseExpired)
	})
}

func TestEarlyTimerDoesNotEndLeadership(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.leader(t, nil)
		w.term(t, 1).leadership.FireTimer()
		after(time.Minute)
		require.True(t, a.IsLeader())
		require.Equal(t, 1, w.led())
	})
}

func TestClaimFoundTooLateIsNotATerm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = func(c call) (fault, time.Duration) {
			if w.at(c.now) > 0 && w.at(c.now) < renew {
				return stallLate, 0 // the claim happens, and the reply comes too late
			}
			return none, 0
		}
		a := w.join(t, "a", nil)
		a.startWith(a.RunOnce)
		after(lease)
		require.True(t, a.IsLeader(), "RunOnce continues until it can lead")
		first := w.term(t, 1)
		assert.Equal(t, uint64(2), first.term)
		assert.Greater(t, w.at(first.leadership.Deadline()), 2*renew)
	})
}

func TestForeignHolderStopsLeaderImmediately(t *testing.T) {
	for what, foreign := range map[string]record{
		"a later term":   {Holder: "x", Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000},
		"the same term":  {Holder: "x", Incarnation: "x", Term: 1, Renewal: 1, LeaseMillis: 15_000},
		"our own name":   {Holder: "a", Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000},
		"our own term":   {Holder: "a", Incarnation: "x", Term: 1, Renewal: 1, LeaseMillis: 15_000},
		"a tombstone":    {Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000},
		"nothing inside": {Term: 2},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.leader(t, nil)
			l := w.term(t, 1).leadership
			w.write(foreign)
			after(retry - time.Second)
			require.NoError(t, l.Err(), "it has not seen it")
			after(3 * latency) // a write that fails, and a read
			require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseTaken)
			assert.Less(t, time.Now(), l.Deadline().Add(-renew/2))
			assert.False(t, w.term(t, 1).returned.IsZero())
			require.ErrorIs(t, w.term(t, 1).cause, leaderelect.ErrLeaseTaken)
			w.mu.Lock()
			w.forgot = true // x is not in the history
			w.mu.Unlock()
		})
	}
}

func TestAmbiguousRenewalIsResolvedByReading(t *testing.T) {
	const sent = latency + retry // the first renewal
	for what, c := range map[string]struct {
		fault    fault
		d        time.Duration
		resolved time.Duration // when the outcome is known
		deadline time.Duration // then
	}{
		"the reply was lost":                {lostReply, 0, sent + latency/2 + latency, sent + renew},
		"there was no reply":                {stallLate, 0, sent + request + latency, sent + renew},
		"the store ignored the context":     {hangLate, 0, sent + request + latency, sent + renew},
		"a retry made it a conflict":        {conflictAfter, 0, sent + 2*latency, sent + renew},
		"the request was late, but it came": {slowRequest, 2 * time.Second, sent + 2*time.Second + 2*latency, sent + renew},
		"the request was lost":              {lostRequest, 0, sent + latency, latency + renew},
		"the request came after the read":   {slowRequest, request + latency, sent + request + latency, latency + renew},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.plan = on("a", "update", 1, c.fault, c.d)
			w.join(t, "a", nil).start()
			after(sent)
			l := w.term(t, 1).leadership
			require.Equal(t, latency+renew, w.at(l.Deadline()), "nothing is clear yet")
			after(c.resolved - sent)
			assert.Equal(t, c.deadline, w.at(l.Deadline()))
			after(time.Minute)
			require.NoError(t, l.Err())
			assert.Equal(t, 1, w.led())
		})
	}
}

func TestDelayedRequestCountsFromSendTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := 0
		w.plan = func(c call) (fault, time.Duration) {
			if c.op == "update" {
				n++
				switch n {
				case 1:
					return lateRequest, 3 * time.Second
				case 2:
					return lostRequest, 0
				}
			}
			return none, 0
		}
		w.join(t, "a", nil).start()
		after(latency + 3*retry)
		l := w.term(t, 1).leadership
		require.Equal(t, latency+renew, w.at(l.Deadline()))
		after(2 * latency) // the third conflicts with the first, and the record is read
		require.Equal(t, latency+retry+renew, w.at(l.Deadline()))
		after(time.Minute)
		require.NoError(t, l.Err())
	})
}

func TestForeignWriteByCloneIsRecognized(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.leader(t, nil)
		rec := w.read()
		rec.Renewal = 100 // this elector has not written it
		w.write(rec)
		after(retry)
		require.ErrorIs(t, w.term(t, 1).cause, leaderelect.ErrLeaseTaken)
	})
}

func TestAmbiguousClaimIsResolvedByReading(t *testing.T) {
	for what, c := range map[string]struct {
		fault fault
		wait  time.Duration
	}{
		"the reply was lost":            {lostReply, 3 * latency},
		"there was no reply":            {stallLate, request + 2*latency},
		"the store ignored the context": {hangLate, request + 2*latency},
		"a retry made it a conflict":    {conflictAfter, 3 * latency},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.plan = on("a", "create", 1, c.fault, 0)
			a := w.join(t, "a", nil)
			a.start()
			after(c.wait)
			require.True(t, a.IsLeader())
			first := w.term(t, 1)
			assert.Equal(t, uint64(1), first.term)
			assert.Equal(t, latency+renew, w.at(first.leadership.Deadline()))
			assert.Len(t, w.history(), 1)
		})
	}
}
