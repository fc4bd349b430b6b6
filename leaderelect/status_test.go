package leaderelect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

func TestLeaderReturnsLastSeenLeader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		metadata := map[string]string{"address": "10.0.0.7"}
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.Metadata = metadata })
		metadata["address"] = "changed after New"
		b := w.join(t, "b", nil)
		for _, p := range w.parties {
			_, ok := p.Leader()
			require.False(t, ok)
			require.False(t, p.IsLeader())
			require.NoError(t, p.Check())
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
			got, ok := p.Leader()
			require.True(t, ok)
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
		_, ok := a.Leader()
		assert.False(t, ok, "it was released")
		assert.False(t, a.IsLeader())
		_, ok = b.Leader()
		assert.True(t, ok, "it has not read since")
	})
}

func TestRecordIsReadableJSON(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
	})
}

func TestHolderReturnsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		_, err := leaderelect.Holder(t.Context(), leases, "lease")
		require.ErrorIs(t, err, leaderelect.ErrNotFound)

		e, err := leaderelect.New(leaderelect.Config{
			Store: leases, Key: "lease", Identity: "me", Metadata: map[string]string{"address": "here"},
			Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(context.Context, *leaderelect.Leadership) error {
				leader, err := leaderelect.Holder(t.Context(), leases, "lease")
				require.NoError(t, err)
				require.Equal(t, "me", leader.Identity)
				require.EqualValues(t, 1, leader.Term)
				require.Equal(t, map[string]string{"address": "here"}, leader.Metadata)
				return nil
			},
		})
		require.NoError(t, err)
		require.NoError(t, e.RunOnce(t.Context()))
		_, err = leaderelect.Holder(t.Context(), leases, "lease")
		require.ErrorIs(t, err, leaderelect.ErrNotFound, "the lease was released")
		leases.Put(leaderelect.Entry{Key: "lease", Value: []byte("{"), Term: 7})
		_, unreadable := leaderelect.Holder(t.Context(), leases, "lease")
		require.Error(t, unreadable)
		require.NotErrorIs(t, unreadable, leaderelect.ErrNotFound, "it is unknown whether it is held")
		require.EqualError(t, err, fmt.Sprintf("leaderelect: read the holder of %q: the lease is free: %v", "lease", leaderelect.ErrNotFound))
	})
}

func TestStatsCountEvents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", watched)
		assert.Equal(t, leaderelect.Stats{}, a.Stats())
		a.start()
		after(time.Second)
		l := w.term(t, 1).leadership
		assert.Equal(t, leaderelect.Stats{Leading: true, Term: 1, Deadline: l.Deadline(), Terms: 1, Watching: true}, a.Stats())
		w.cut("a", renew)
		after(renew + time.Second)
		stats := a.Stats()
		assert.ErrorContains(t, stats.LastError, "no reply in time")
		stats.LastError = nil
		assert.Equal(t, leaderelect.Stats{Terms: 1, Lost: 1, Watching: true}, stats)
		after(request + retry) // a read was under way when the network came back
		assert.Equal(t, uint64(2), a.Stats().Terms)
		assert.Equal(t, uint64(2), a.Stats().Term)
		require.NoError(t, a.stop())
		assert.Equal(t, leaderelect.Stats{Terms: 2, Lost: 1}, a.Stats())
	})
}
