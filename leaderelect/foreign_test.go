package leaderelect_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// Records that no elector has written, and results that no good store returns.

func TestFollowerWaitsForHolderRegardlessOfPreferred(t *testing.T) {
	for _, preferred := range []string{"a", "y"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.write(record{Holder: "x", Incarnation: "x", Term: 6, Renewal: 1, LeaseMillis: 15_000, Preferred: preferred})
			w.join(t, "a", nil).start()
			after(latency + lease + pause - 1)
			require.Equal(t, "x", w.read().Holder)
			after(1 + latency)
			require.Equal(t, uint64(7), w.term(t, 1).term)
			w.finish(t)
		})
	}
}

func TestInvalidJSONRecordIsNotAFreeLease(t *testing.T) {
	for pick := range scribbles {
		t.Run(string(scribbles[pick]([]byte(`{"holder":"a"}`))), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.join(t, "a", nil), w.join(t, "b", watched)
				startBoth(a, b)
				after(time.Second)
				w.meddle(scribble, time.Duration(pick)*time.Millisecond)
				scribbled := time.Now()
				_, err := leaderelect.Holder(t.Context(), link{network: w.network, party: "somebody", slow: 1}, key)
				require.Error(t, err)
				require.NotErrorIs(t, err, leaderelect.ErrNotFound, "it is unknown whether it is free")
				after(lease)
				require.Equal(t, 1, w.led())
				require.Error(t, w.term(t, 1).leadership.Err())
				after(retry)
				assert.GreaterOrEqual(t, w.term(t, 2).began.Sub(scribbled), lease)
				assert.Equal(t, uint64(2), w.term(t, 2).term, "the floor counts")
				w.forgot = true
				w.finish(t)
			})
		})
	}
}

func TestNoTermFollowsMaxUint64(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write(record{Incarnation: "x", Term: math.MaxUint64 - 1, Renewal: 1})
		a := w.join(t, "a", nil)
		a.start()
		after(time.Second)
		require.Equal(t, uint64(math.MaxUint64), w.term(t, 1).term)
		require.NoError(t, a.Resign(t.Context(), 0))
		b := w.join(t, "b", nil)
		b.start()
		after(2 * time.Minute)
		assert.Equal(t, 1, w.led())
		assert.Equal(t, uint64(math.MaxUint64), w.read().Term, "it never goes back")
		w.finish(t)
	})
}

func TestPanickingStoreCallIsAmbiguous(t *testing.T) {
	for _, op := range []string{"get", "create", "update"} {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := memlease.New()
				panicked := 0
				crash := func(_ context.Context, c memlease.Call) error {
					if c.Op == op && panicked == 0 {
						panicked++
						panic(errors.New("on purpose"))
					}
					return nil
				}
				if late {
					s.Inject(memlease.Faults{After: crash})
				} else {
					s.Inject(memlease.Faults{Before: crash})
				}
				w := newWorld(t)
				a := w.join(t, "a", func(cfg *leaderelect.Config) {
					cfg.Store = s
					cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil }
					cfg.OnStoppedLeading, cfg.OnNewLeader = nil, nil
				})
				a.start()
				after(time.Minute)
				require.Equal(t, 1, panicked)
				require.True(t, a.IsLeader())
				require.Equal(t, uint64(1), a.Stats().Terms)
				require.NoError(t, a.stop())
			})
		}
	}
}
