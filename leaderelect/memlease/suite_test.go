package memlease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

var errLost = errors.New("the reply was lost")

func TestStoreConformsToLeaseStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(*testing.T) leasetest.Backend {
		s := memlease.New()
		return leasetest.Backend{
			Store:    s,
			Sessions: s,
			Delete:   s.Delete,
			Drop: func() {
				s.Inject(memlease.Faults{Before: func(ctx context.Context, _ memlease.Call) error {
					<-ctx.Done()
					return ctx.Err()
				}})
			},
			Heal: func() { s.Inject(memlease.Faults{}) },
			CutReply: func() {
				s.Inject(memlease.Faults{After: func(context.Context, memlease.Call) error {
					s.Inject(memlease.Faults{})
					return errLost
				}})
			},
		}
	})
}

func TestRecordDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memlease.New()
		want, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 3})
		require.NoError(t, err)
		time.Sleep(365 * 24 * time.Hour)
		got, err := s.Get(t.Context(), "lease")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	})
}
