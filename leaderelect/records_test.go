package leaderelect_test

import (
	"context"
	"errors"
	"log/slog"
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
		inWorld(t, func(t *testing.T, w *world) {
			w.write(record{Holder: "x", Incarnation: "x", Term: 6, Renewal: 1, LeaseMillis: 15_000, Preferred: preferred})
			w.join(t, "a", nil).start()
			after(latency + lease + pause - 1)
			require.Equal(t, "x", w.read().Holder)
			after(1 + latency)
			require.Equal(t, uint64(7), w.term(t, 1).term)
		})
	}
}

func TestInvalidJSONRecordIsNotAFreeLease(t *testing.T) {
	for pick := range scribbles {
		subWorld(t, string(scribbles[pick]([]byte(`{"holder":"a"}`))), func(t *testing.T, w *world) {
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
		})
	}
}

func TestNoTermFollowsMaxUint64(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write(record{Incarnation: "x", Term: math.MaxUint64 - 1, Renewal: 1})
		a := w.leader(t, nil)
		require.Equal(t, uint64(math.MaxUint64), w.term(t, 1).term)
		require.NoError(t, a.Resign(t.Context(), 0))
		b := w.join(t, "b", nil)
		b.start()
		after(2 * time.Minute)
		assert.Equal(t, 1, w.led())
		assert.Equal(t, uint64(math.MaxUint64), w.read().Term, "it never goes back")
	})
}

func TestTermsGrowAfterRecordIsDeleted(t *testing.T) {
	for what, faults := range map[string]memlease.Faults{
		"":                          {},
		"the reply was lost":        {After: once("create")},
		"the second write was lost": {Before: once("update")},
		"its reply was lost":        {After: once("update")},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memlease.New()
				var terms []uint64
				lead := func() {
					t.Helper()
					e, err := leaderelect.New(leaderelect.Config{
						Store: s, Key: key, Logger: slog.New(slog.DiscardHandler),
						OnStartedLeading: func(_ context.Context, l *leaderelect.Leadership) error {
							got, err := s.Get(t.Context(), key)
							assert.NoError(t, err)
							assert.Equal(t, l.Term(), got.Term)
							terms = append(terms, l.Term())
							time.Sleep(time.Minute)
							return nil
						},
					})
					require.NoError(t, err)
					require.NoError(t, e.RunOnce(t.Context()))
				}
				lead()
				lead()
				s.Delete(key)
				s.Inject(faults)
				lead()
				lead()
				require.Len(t, terms, 4)
				assert.Equal(t, []uint64{1, 2}, terms[:2])
				assert.Greater(t, terms[2], uint64(2), "of another incarnation of the record")
				assert.Equal(t, terms[2]+1, terms[3])
			})
		})
	}
}

// once returns a fault of the first call of a kind.
func once(op string) func(context.Context, memlease.Call) error {
	done := false
	return func(_ context.Context, c memlease.Call) error {
		if c.Op != op || done {
			return nil
		}
		done = true
		return errors.New("connection reset")
	}
}

func TestBackendWithoutFloorRestartsAtTermOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		a.start()
		after(time.Minute)
		require.NoError(t, a.stop())
		w.meddle(deleteRecord, 0)
		w.join(t, "b", nil).start()
		after(time.Second)
		assert.Equal(t, uint64(1), w.term(t, 2).term)
	})
}

// termOf runs an elector until it leads, and returns its term.
func termOf(t *testing.T, leases leaderelect.LeaseStore) (term uint64) {
	e, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: "shop", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(_ context.Context, l *leaderelect.Leadership) error {
			term = l.Term()
			return nil
		},
	})
	require.NoError(t, err)
	require.NoError(t, e.RunOnce(t.Context()))
	return term
}

// These are the steps of the operating guide for a leader whose terms are too low.
func TestEditedRecordRaisesTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		require.EqualValues(t, 1, termOf(t, leases))
		leases.Delete("shop")
		leases.Put(leaderelect.Entry{Key: "shop", Term: 57, Value: []byte("{}")})
		require.EqualValues(t, 58, termOf(t, leases))
	})
}
