//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// termOf runs an elector until it leads, and returns its term.
func termOf(t *testing.T, leases leaderelect.LeaseStore) (term uint64) {
	e, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: "shop", LeaseDuration: 500 * time.Millisecond,
		OnStartedLeading: func(_ context.Context, l *leaderelect.Leadership) error {
			term = l.Term()
			return nil
		},
	})
	require.NoError(t, err)
	require.NoError(t, e.RunOnce(t.Context()))
	return term
}

// The statements of docs/operating.md raise the term of a lease, whether or not it has a record.
func TestOperatingGuideStatementsRaiseTerm(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 2, "one that raises a term, and one that deletes a record")
	require.Contains(t, blocks[0][1], "57")
	raises := func(t *testing.T, db *sql.DB, d sqllease.Dialect) {
		leases, err := sqllease.New(db, sqllease.Config{Dialect: d})
		require.NoError(t, err)
		require.NoError(t, leases.EnsureTable(t.Context()))
		for range 2 {
			_, err = db.Exec(blocks[0][1])
			require.NoError(t, err)
			require.EqualValues(t, 58, termOf(t, leases))
		}
		_, err = db.Exec(blocks[1][1])
		require.NoError(t, err)
		require.EqualValues(t, 1, termOf(t, leases))
	}
	t.Run("SQLite", func(t *testing.T) {
		raises(t, openSQLite(t, filepath.Join(t.TempDir(), "leases.db"), "wal", forLeases), sqllease.SQLite)
	})
	t.Run("MariaDB", func(t *testing.T) {
		raises(t, openMariaDB(t, "root", servertest.MariaDB(t).Addr(), "multiStatements=true"), sqllease.MySQL)
	})
	t.Run("Postgres", func(t *testing.T) {
		raises(t, openPostgres(t, "pgx", servertest.Postgres(t, "fsync=off").Addr()), sqllease.Postgres)
	})
}

// So does the command for Redis.
func TestOperatingGuideCommandRaisesTermInRedis(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	command := regexp.MustCompile("(?s)```sh\nredis-cli (.*?)\n```").FindSubmatch(page)
	require.NotNil(t, command)
	var words []any
	for word := range strings.FieldsSeq(strings.ReplaceAll(string(command[1]), "'", "")) {
		words = append(words, word)
	}
	client := openRedis(t, startRedis(t).Addr(), 0)
	leases := redisLeases(client, "")
	for range 2 {
		require.NoError(t, client.Do(t.Context(), words...).Err())
		require.EqualValues(t, 58, termOf(t, leases))
	}
}
