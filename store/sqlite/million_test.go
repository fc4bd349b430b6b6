package sqlite_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

var million = flag.Bool("million", false, "list a million objects, and watch 100,000 changes")

// The rows are copies of one that was written by the package, made by SQL, which is fast.
func TestMillionObjectsAreReadInBoundedMemory(t *testing.T) {
	objects, changes := 10_000, 1000
	if *million {
		objects, changes = 1_000_000, 100_000
	}
	db := open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{})
	_, err := dbtest.Put(t.Context(), db, "0", `{"Image":"registry.example/app:1"}`)
	require.NoError(t, err)
	exec := func(statement string, args ...any) {
		_, err := db.DB().Exec(statement, args...)
		require.NoError(t, err)
	}
	exec(`WITH RECURSIVE i (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
		INSERT INTO setpoint_log SELECT n, kind, 'key ' || n, latest, deleted, record FROM i, setpoint_log`, objects)
	exec(`UPDATE setpoint_state SET version = ?`, objects)
	dbtest.ReadsInBoundedMemory(t, db, objects, changes, func() {
		exec(`UPDATE setpoint_log SET latest = 0 WHERE version <= ?`, changes)
		exec(`INSERT INTO setpoint_log SELECT version + ?, kind, key, 1, deleted, record FROM setpoint_log WHERE version <= ?`, objects, changes)
		exec(`UPDATE setpoint_state SET version = ?`, objects+changes)
	})
}
