package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// writeTogether makes writes by several writers, each to its own key, and checks that each has a version of its own.
func writeTogether(t *testing.T, db *sqlite.Backend, writers, writes int) {
	t.Helper()
	written := make([][]backend.Record, writers)
	var g sync.WaitGroup
	for w := range writers {
		g.Go(func() {
			for range writes {
				r, err := dbtest.Put(t.Context(), db, fmt.Sprint(w), "{}")
				assert.NoError(t, err)
				written[w] = append(written[w], r)
			}
		})
	}
	g.Wait()
	seen := make(map[informer.Version]bool)
	for w := range writers {
		for _, r := range written[w] {
			assert.False(t, seen[r.Version])
			seen[r.Version] = true
		}
		r, err := db.Get(t.Context(), "app", fmt.Sprint(w))
		require.NoError(t, err)
		assert.Equal(t, written[w][writes-1].Version, r.Version)
	}
	assert.Len(t, seen, writers*writes)
}

func TestWritersThatComeTogetherShareTransactions(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "x.db"), sqlite.Config{})
	var shared atomic.Int32
	db.CountShared(&shared)
	writeTogether(t, db, 16, 10)
	assert.NotZero(t, shared.Load())
}

func TestAWriteThatTheDatabaseRefusesFailsAlone(t *testing.T) {
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
	writeTogether(t, db, 8, 10)
	g.Wait()
}
