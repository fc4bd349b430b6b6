package leaderelect_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestLeaderReturnsLastSeenLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		metadata := map[string]string{"address": "10.0.0.7"}
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.Metadata = metadata })
		metadata["address"] = "changed after New"
		b := w.join(t, "b", nil)
		for _, p := range w.parties {
			_, known := p.Leader()
			require.False(t, known)
			require.False(t, p.IsLeader())
			require.NoError(t, p.Check(0))
		}
		began := time.Now()
		startBoth(a, b)
		after(time.Second)
		want := leaderelect.Leader{
			Identity: "a", Incarnation: w.read().Incarnation, Term: 1, Metadata: map[string]string{"address": "10.0.0.7"},
		}
		first, _ := b.Leader()
		want.Since = first.Since
		assert.WithinDuration(t, began, want.Since, 100*time.Millisecond)
		for _, p := range w.parties {
			got, known := p.Leader()
			require.True(t, known)
			require.Equal(t, want, got)
			got.Metadata["address"] = "a copy"
		}
		again, _ := b.Leader()
		assert.Equal(t, want, again)
		assert.True(t, a.IsLeader())
		assert.False(t, b.IsLeader())

		b.cancel(context.Canceled)
		<-b.done
		require.NoError(t, a.stop())
		_, known := a.Leader()
		assert.False(t, known, "it was released")
		assert.False(t, a.IsLeader())
		_, known = b.Leader()
		assert.True(t, known, "it has not read since")
		w.finish(t)
	})
}

func TestCheckFailsOnlyWhenWorkOutlivesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", nil)
		a.behave = work{linger: time.Minute}.run
		a.start()
		after(20 * time.Second)
		require.NoError(t, a.Check(0))
		w.cut("a", time.Hour)
		last := w.term(t, 1).leadership.Deadline().Add(-renew)
		after(time.Until(last.Add(lease)))
		require.NoError(t, a.Check(0))
		after(1)
		require.ErrorContains(t, a.Check(0), `"lease": failed to renew leadership for 15.000000001s`)
		require.NoError(t, a.Check(time.Second))
		after(time.Second)
		require.Error(t, a.Check(time.Second))
		after(2 * time.Minute)
		require.NoError(t, a.Check(0), "the work has returned")
		w.finish(t)
	})
}

func TestRecordIsReadableJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.LeaseDuration = 15*time.Second + 1 // in the record it is rounded up, never down
			cfg.Metadata = map[string]string{"zone": "b"}
		})
		a.start()
		after(retry + 2*latency)
		e, err := w.load()
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(e.Value, &fields))
		incarnation, _ := fields["incarnation"].(string)
		assert.GreaterOrEqual(t, len(incarnation), 16)
		delete(fields, "incarnation")
		assert.Equal(t, map[string]any{
			"holder": "a", "term": 1.0, "renewal": 2.0, "leaseMillis": 15_001.0,
			"acquireTime": "2000-01-01T00:00:00.002Z", "renewTime": "2000-01-01T00:00:02.002Z",
			"metadata": map[string]any{"zone": "b"},
		}, fields)
		assert.Equal(t, uint64(1), e.Term)
		w.finish(t)
	})
}
