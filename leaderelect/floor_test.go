package leaderelect_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", nil)
		a.start()
		after(time.Minute)
		require.NoError(t, a.stop())
		w.meddle(deleteRecord, 0)
		w.join(t, "b", nil).start()
		after(time.Second)
		assert.Equal(t, uint64(1), w.term(t, 2).term)
		w.finish(t)
	})
}
