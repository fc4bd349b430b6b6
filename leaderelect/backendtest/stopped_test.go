//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// A leader that is stopped, or cut off, in the middle of a guarded transaction keeps the row lock of its guard. To the server, both look
// like a client that sends nothing more. README.md has the figures.
func TestTimeoutOfServerEndsOpenTransactionOfStoppedLeader(t *testing.T) {
	t.Parallel()
	t.Run("Postgres, idle_in_transaction_session_timeout", func(t *testing.T) {
		t.Parallel()
		server := servertest.Postgres(t, "fsync=off")
		timeoutEndsTransaction(t, sqllease.Postgres, openPostgres(t, "pgx", server.Addr()), func(timeout time.Duration) (*sql.DB, error) {
			return sql.Open("pgx", "postgres://postgres@"+server.Addr()+"/postgres?sslmode=disable&idle_in_transaction_session_timeout="+
				fmt.Sprint(timeout.Milliseconds()))
		})
	})
	// MySQL has only the second one, which also ends connections that are idle in a pool.
	for variable, least := range map[string]time.Duration{"idle_transaction_timeout": 0, "wait_timeout": time.Hour} {
		t.Run("MariaDB, "+variable, func(t *testing.T) {
			t.Parallel()
			server := servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2")
			timeoutEndsTransaction(t, sqllease.MySQL, openMariaDB(t, "root", server.Addr(), recommended), func(timeout time.Duration) (*sql.DB, error) {
				if timeout > 0 {
					timeout = max(timeout, time.Second)
				} else {
					timeout = least // no wait_timeout is 0
				}
				return newMariaDB("root", server.Addr(), "test", fmt.Sprintf("%s=%d", variable, timeout/time.Second))
			})
		})
	}
}

// timeoutEndsTransaction stops a leader in a guarded transaction of a pool with each of some timeouts, and measures when another leads.
func timeoutEndsTransaction(t *testing.T, d sqllease.Dialect, near *sql.DB, open func(timeout time.Duration) (*sql.DB, error)) {
	const lease = 2 * time.Second
	for timeout, want := range map[time.Duration]struct{ least, most time.Duration }{
		0:                      {},                              // not at all
		500 * time.Millisecond: {lease / 2, lease + patience},   // the lease is longer
		3 * lease:              {3 * lease, 3*lease + patience}, // the transaction is
	} {
		t.Run(timeout.String(), func(t *testing.T) {
			t.Parallel()
			far, err := open(timeout)
			require.NoError(t, err)
			t.Cleanup(func() { _ = far.Close() })
			table := "stopped_" + fmt.Sprint(timeout.Milliseconds())
			s := leasesIn(t, near, d, table)
			old := leasesIn(t, far, d, table)
			link := cutOff{s, make(chan struct{})}
			elector := func(store leaderelect.LeaseStore, work func(ctx context.Context)) *leaderelect.Elector {
				return must(leaderelect.New(leaderelect.Config{
					Store: store, Key: "lease", LeaseDuration: lease, Logger: slog.New(slog.DiscardHandler),
					OnStepDownOverrun: func(*leaderelect.Leadership) {},
					OnStartedLeading:  func(ctx context.Context, _ *leaderelect.Leadership) error { work(ctx); return nil },
				}))
			}
			over, resume := context.WithCancel(t.Context())
			var stopped time.Time
			guarding := make(chan struct{})
			zombie := elector(link, func(ctx context.Context) {
				_ = old.Transact(context.WithoutCancel(ctx), func(*sql.Tx) error {
					close(link.cut)
					stopped = time.Now()
					close(guarding)
					<-over.Done() // it sends nothing more
					return nil
				})
			})
			ended := make(chan struct{})
			go func() { defer close(ended); _ = zombie.RunOnce(context.WithoutCancel(t.Context())) }() // ends after resume
			<-guarding
			limit := patience
			if timeout == 0 {
				limit = 4 * lease
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit+3*lease)
			defer cancel()
			var began time.Time
			require.NoError(t, elector(s, func(context.Context) { began = time.Now() }).RunOnce(ctx))
			if timeout == 0 {
				assert.Zero(t, began, "nothing ends the transaction")
			} else if assert.NotZero(t, began, "nobody leads") {
				took := began.Sub(stopped)
				t.Logf("timeout %v, lease %v: the successor begins after %v", timeout, lease, took)
				assert.GreaterOrEqual(t, took, want.least)
				assert.LessOrEqual(t, took, want.most)
			}
			resume()
			<-ended
		})
	}
}
