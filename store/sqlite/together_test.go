package sqlite_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func TestConcurrentWritersShareTransactions(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "x.db"), sqlite.Config{})
	var shared atomic.Int32
	db.CountShared(&shared)
	dbtest.WriteTogether(t, db, 16, 10)
	assert.NotZero(t, shared.Load())
}

func TestRejectedWriteFailsAlone(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "x.db"), sqlite.Config{})
	_, err := db.DB().Exec(`CREATE TRIGGER bad BEFORE INSERT ON setpoint_log WHEN NEW.key = 'bad' BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	require.NoError(t, err)
	var g sync.WaitGroup
	g.Go(func() {
		for range 20 {
			_, err := dbtest.Put(t.Context(), db, "bad", "{}")
			assert.ErrorContains(t, err, "refused")
		}
	})
	dbtest.WriteTogether(t, db, 8, 10)
	g.Wait()
}

// Writers share a transaction, and each has a context of its own.
func TestNeighborsDeadlineDoesNotEndWrite(t *testing.T) {
	t.Parallel()
	dbtest.ImpatientWritersHarmNoOthers(t, open(t, filepath.Join(t.TempDir(), "x.db"), sqlite.Config{}), 1500*time.Microsecond, 500)
}
