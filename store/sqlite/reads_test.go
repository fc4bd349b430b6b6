package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// A new connection reads the schema, which takes longer than most reads. All watches of a Backend read after each of its writes.
func TestConcurrentReadsKeepTheirConnections(t *testing.T) {
	db := open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{})
	_, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	const readers = 32
	for range 3 {
		var here, all sync.WaitGroup
		here.Add(readers)
		for range readers {
			all.Go(func() { // ends when all lists are under way
				for _, err := range db.List(t.Context(), "app", backend.Query{}) {
					assert.NoError(t, err)
					here.Done()
					here.Wait()
				}
			})
		}
		all.Wait()
	}
	stats := db.Reader().Stats()
	assert.Equal(t, readers, stats.OpenConnections)
	assert.Zero(t, stats.MaxIdleClosed)
}
