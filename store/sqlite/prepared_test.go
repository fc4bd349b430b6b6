package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// Another program changes the schema while the statements of this one are prepared.
func TestPreparedStatementsOutliveSchemaChanges(t *testing.T) {
	b := open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{})
	apps := dbtest.Apps(t, b)
	list := func() (keys []string) {
		t.Helper()
		for page, err := range b.List(t.Context(), "App", backend.Query{}) {
			require.NoError(t, err)
			for _, r := range page.Records {
				keys = append(keys, r.Key)
			}
		}
		return keys
	}
	var want []string
	for i, change := range []string{
		"SELECT 1", "CREATE TABLE other (x)", `CREATE INDEX more ON setpoint_log (deleted)`, "ALTER TABLE setpoint_log RENAME TO away",
		"ALTER TABLE away RENAME TO setpoint_log", "DROP INDEX more", "VACUUM",
	} {
		_, err := b.DB().ExecContext(t.Context(), change)
		require.NoError(t, err, change)
		key := fmt.Sprint("app-", i)
		_, err = apps.Create(t.Context(), store.Object[dbtest.App]{Key: key})
		if change == "ALTER TABLE setpoint_log RENAME TO away" {
			require.ErrorContains(t, err, "no such table: setpoint_log")
			continue
		}
		require.NoError(t, err, change)
		want = append(want, key)
		assert.Equal(t, want, list(), change)
		_, err = apps.Get(t.Context(), key)
		require.NoError(t, err, change)
	}
}
