package manager_test

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
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

func TestElectionOnStoreThatCannotWorkEndsManager(t *testing.T) {
	errNoTable := errors.New("there is no table: call EnsureTable")
	for _, restart := range []wait.Backoff{{}, doubling} {
		for _, sharded := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				leases := memlease.New()
				leases.Inject(memlease.Faults{Before: func(context.Context, memlease.Call) error { return retry.Permanent(errNoTable) }})
				election := leaderelect.Config{Store: leases, Key: "shop", Logger: slog.New(slog.DiscardHandler)}
				cfg := manager.Config{Election: &election, Restart: restart, Logger: slog.New(slog.DiscardHandler)}
				if sharded {
					cfg.Election, cfg.Shards = nil, &shard.Config{Lease: election}
				}
				m, err := manager.New(cfg)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- m.Run(ctx) }() // ends with ctx, or when the election fails
				synctest.Wait()
				if restart.IsZero() {
					err := <-done
					require.ErrorIs(t, err, errNoTable)
					assert.ErrorContains(t, err, "EnsureTable")
					return
				}
				require.ErrorIs(t, m.Ready(), errNoTable, "it is said at once")
				assert.ErrorContains(t, m.Ready(), "EnsureTable")
				leases.Inject(memlease.Faults{}) // the table was created
				time.Sleep(10 * time.Second)
				assert.NoError(t, m.Ready())
				cancel()
				require.NoError(t, <-done)
			})
		}
	}
}
