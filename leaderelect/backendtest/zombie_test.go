//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// cutOff is a store that a leader does not reach any more, once it is cut. Its transactions go another way.
type cutOff struct {
	leaderelect.LeaseStore
	cut chan struct{}
}

var errCut = errors.New("connection reset")

func (s cutOff) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	select {
	case <-s.cut:
		return leaderelect.Entry{}, errCut
	default:
		return s.LeaseStore.Update(ctx, e)
	}
}

// keepGuarding runs guarded transactions that overlap without a gap until ctx ends, whether they are refused or not.
func keepGuarding(ctx context.Context, transact func() error) {
	var all sync.WaitGroup
	defer all.Wait()
	for range 4 {
		all.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				if transact() != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}

// A guarded transaction does not queue behind a waiting takeover. So a former leader with overlapping transactions
// could delay a takeover indefinitely. A guard with a Leadership ends that with the lease.
func TestFormerLeadersTransactionsDoNotBlockSuccessor(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	db := openPostgres(t, "pgx", server.Addr())
	db.SetMaxOpenConns(16)
	const took = 50 * time.Millisecond

	t.Run("only by terms, it could", func(t *testing.T) {
		s := leasesIn(t, db, sqllease.Postgres, "by_term")
		e, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		begin := func() *sql.Tx {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, s.GuardTerm(t.Context(), tx, "lease", 1), "it does not queue behind the takeover")
			return tx
		}
		tx := begin()
		e.Term = 2
		taken := make(chan error, 1)
		go func() { // ends with the last transaction
			_, err := s.Update(t.Context(), e)
			taken <- err
		}()
		require.Eventually(t, func() bool {
			var waits int
			err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE "by_term"%'`).Scan(&waits)
			return err == nil && waits == 1
		}, patience, time.Millisecond)
		for range 5 {
			next := begin()
			require.NoError(t, tx.Commit())
			tx = next
			time.Sleep(took)
			require.Empty(t, taken, "the takeover still waits")
		}
		require.NoError(t, tx.Commit())
		require.NoError(t, <-taken)
	})

	t.Run("with its Leadership, it cannot", func(t *testing.T) {
		cannotDelay(t, leasesIn(t, db, sqllease.Postgres, "by_leadership"))
	})
}

// On MariaDB, a guarded transaction does queue behind a waiting takeover.
func TestFormerLeadersTransactionsDoNotBlockSuccessorOnMariaDB(t *testing.T) {
	t.Parallel()
	server := servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2")
	db := openMariaDB(t, "root", server.Addr(), recommended)
	db.SetMaxOpenConns(16)

	t.Run("only by terms", func(t *testing.T) {
		s := leasesIn(t, db, sqllease.MySQL, "by_term")
		e, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		one, two := must(db.BeginTx(t.Context(), nil)), must(db.BeginTx(t.Context(), nil))
		require.NoError(t, s.GuardTerm(t.Context(), one, "lease", 1))
		e.Term = 2
		taken, guarded := make(chan error, 1), make(chan error, 1)
		go func() { // ends with the first transaction
			_, err := s.Update(t.Context(), e)
			taken <- err
		}()
		lockWaits(t, db, 1)
		go func() { guarded <- s.GuardTerm(t.Context(), two, "lease", 1) }() // ends with the takeover
		lockWaits(t, db, 2)
		require.NoError(t, one.Commit())
		require.NoError(t, <-taken)
		require.ErrorIs(t, <-guarded, sqllease.ErrFenced)
		require.NoError(t, two.Rollback())
	})

	t.Run("with its Leadership", func(t *testing.T) {
		cannotDelay(t, leasesIn(t, db, sqllease.MySQL, "by_leadership"))
	})
}

// cannotDelay has a former leader begin overlapping transactions, and another lead all the same.
func cannotDelay(t *testing.T, s *sqllease.Store) {
	t.Helper()
	const took, lease = 50 * time.Millisecond, 2 * time.Second
	link := cutOff{s, make(chan struct{})}
	var began []time.Time
	elector := func(store leaderelect.LeaseStore, work func(ctx context.Context)) *leaderelect.Elector {
		e, err := leaderelect.New(leaderelect.Config{
			Store: store, Key: "lease", LeaseDuration: lease, Logger: slog.New(slog.DiscardHandler),
			OnStepDownOverrun: func(*leaderelect.Leadership) {},
			OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
				began = append(began, time.Now())
				work(ctx)
				return nil
			},
		})
		require.NoError(t, err)
		return e
	}
	over, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	zombie := elector(link, func(ctx context.Context) {
		close(link.cut)
		ctx = context.WithoutCancel(ctx) // it does not notice
		keepGuarding(over, func() error { return s.Transact(ctx, func(*sql.Tx) error { time.Sleep(took); return nil }) })
	})
	all.Go(func() { _ = zombie.RunOnce(t.Context()) })
	time.Sleep(lease / 2)
	require.NoError(t, elector(s, func(context.Context) {}).RunOnce(t.Context()))
	require.Len(t, began, 2)
	require.Less(t, began[1].Sub(began[0]), 2*lease+20*took, "it has waited for the lease, and for transactions in flight")
	end()
	all.Wait()
}
