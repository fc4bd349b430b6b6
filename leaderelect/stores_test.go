package leaderelect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
)

func TestMemoryStoreIsALeaseStore(t *testing.T) {
	t.Parallel()
	leasetest.Run(t, func(*testing.T) leasetest.Backend {
		s := leaderelect.NewMemoryStore()
		return leasetest.Backend{
			Store:  s,
			Delete: s.Delete,
			Drop: func() {
				s.Inject(leaderelect.Faults{Before: func(ctx context.Context, _ leaderelect.Call) error {
					<-ctx.Done()
					return ctx.Err()
				}})
			},
			Heal: func() { s.Inject(leaderelect.Faults{}) },
			CutReply: func() {
				s.Inject(leaderelect.Faults{After: func(context.Context, leaderelect.Call) error {
					s.Inject(leaderelect.Faults{})
					return errNetwork
				}})
			},
		}
	})
}

func TestARecordInMemoryDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { doesNotExpire(t, leaderelect.NewMemoryStore()) })
}

// doesNotExpire checks that a record is there after a year. It runs in a bubble.
func doesNotExpire(t *testing.T, s leaderelect.LeaseStore) {
	t.Helper()
	want, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 3})
	require.NoError(t, err)
	time.Sleep(365 * 24 * time.Hour)
	got, err := s.Get(context.Background(), "lease")
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
