//go:build linux

package backendtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// retryPeriod is the default of an elector: each lease is renewed once in it.
const retryPeriod = 2 * time.Second

// BenchmarkLeases renews leases in Postgres as fast as it can, through one pool of connections, and says how many leaders
// that would be enough for. The server has its defaults, so each renewal is on disk when it is acknowledged.
func BenchmarkLeases(b *testing.B) {
	s := servertest.Postgres(b)
	var tables atomic.Int64
	for _, connections := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			db := openPostgres(b, "pgx", s.Addr())
			db.SetMaxOpenConns(connections)
			db.SetMaxIdleConns(connections)
			leases := leasesIn(b, db, sqllease.Postgres, fmt.Sprintf("leases_%d", tables.Add(1)))
			ctx := context.Background()
			entries := make([]leaderelect.Entry, 16*connections)
			for i := range entries {
				var err error
				entries[i], err = leases.Create(ctx, leaderelect.Entry{Key: fmt.Sprintf("slot/%d", i), Term: 1, Value: make([]byte, 250)})
				require.NoError(b, err)
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			errs := make([]error, connections)
			var all sync.WaitGroup
			b.ResetTimer()
			begin := time.Now()
			for c := range connections {
				// Renews its share of the leases, in turn. It ends when b.N are done; the benchmark waits for it.
				all.Go(func() {
					for i := c; left.Add(-1) >= 0 && errs[c] == nil; i = (i + connections) % len(entries) {
						entries[i], errs[c] = leases.Update(ctx, entries[i])
					}
				})
			}
			all.Wait()
			took := time.Since(begin)
			for _, err := range errs {
				require.NoError(b, err)
			}
			rate := float64(b.N) / took.Seconds()
			b.ReportMetric(rate, "renewals/s")
			b.ReportMetric(rate*retryPeriod.Seconds(), "leases")
		})
	}
}
