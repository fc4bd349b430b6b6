package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// open opens the file at path until the test ends.
func open(t testing.TB, path string, cfg sqlite.Config) *sqlite.Backend {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func TestSuiteThroughTwoHandles(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Database {
		path := filepath.Join(looptest.MemoryDir(t), "state.db")
		cfg := sqlite.Config{History: 2000, Poll: 5 * time.Millisecond}
		one, two := open(t, path, cfg), open(t, path, cfg)
		return storetest.Database{
			Handles:   []backend.Backend{one, two},
			Remembers: 2000,
			Expire: func(string) error {
				_, err := one.DB().Exec(`UPDATE setpoint_state SET horizon = version;
					DELETE FROM setpoint_log WHERE latest = 0 OR deleted = 1`)
				return err
			},
			// SQLite has one writer at a time: the second transaction cannot begin before the first one has committed.
			Overlap: func(first, second func(ctx context.Context) error, look func()) error {
				if err := inTx(t.Context(), one, first); err != nil {
					return err
				}
				look()
				return inTx(t.Context(), two, second)
			},
		}
	})
}

// inTx calls f in a transaction of db.
func inTx(ctx context.Context, db *sqlite.Backend, f func(ctx context.Context) error) error {
	tx, err := db.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := f(sqlite.WithTx(ctx, tx)); err != nil {
		return err
	}
	return tx.Commit()
}
