//go:build linux

package postgres_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

var million = flag.Bool("million", false, "list a million objects, watch 100,000 changes, and a statement that changes a million rows")

// The rows are copies of one that was written by the package, made by SQL, which is fast.
func TestMillionObjectsAreReadInBoundedMemory(t *testing.T) {
	t.Parallel()
	objects, changes := 10_000, 1000
	if *million {
		objects, changes = 1_000_000, 100_000
	}
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema})
	_, err := dbtest.Put(t.Context(), db, "0", `{"Image":"registry.example/app:1"}`)
	require.NoError(t, err)
	in := func(statement string, args ...any) {
		exec(t, pool, fmt.Sprintf(`SET search_path = "%s"; `, schema)+fmt.Sprintf(statement, args...))
	}
	in(`INSERT INTO objects SELECT n, kind, 'key ' || n, latest, deleted, record, value FROM objects, generate_series(2, %d) n;
		UPDATE state SET version = %[1]d; ANALYZE objects; RESET search_path`, objects)
	dbtest.ReadsInBoundedMemory(t, db, objects, changes, func() {
		in(`UPDATE objects SET latest = false WHERE version <= %[2]d;
			INSERT INTO objects SELECT version + %[1]d, kind, key, true, deleted, record, value FROM objects WHERE version <= %[2]d;
			UPDATE state SET version = %[1]d + %[2]d; RESET search_path`, objects, changes)
	})
}

// One statement changes all rows of a table in one transaction. A watch yields each change.
func TestMillionRowUpdateIsReportedInBoundedMemory(t *testing.T) {
	t.Parallel()
	rows := 10_000
	if *million {
		rows = 1_000_000
	}
	pool := connect(t, servertest.Postgres(t, "fsync=off", "max_wal_size=4GB").Addr())
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	exec(t, pool, fmt.Sprintf(`INSERT INTO %s SELECT 'site ' || n, 1 FROM generate_series(1, %d) n`, sqlName(cfg), rows))
	var at informer.Version
	heap, n := dbtest.NewHeap(t), 0
	for page, err := range table.ListPages(t.Context()) {
		require.NoError(t, err)
		at = page.Version
		for range page.Items {
			n++
			heap.Look()
		}
	}
	heap.End("list")
	assert.Equal(t, rows, n)
	exec(t, pool, `UPDATE `+sqlName(cfg)+` SET rev = 2`)
	heap, n = dbtest.NewHeap(t), 0
	for e, err := range table.Watch(t.Context(), at) {
		require.NoError(t, err)
		if e.Type == informer.Bookmark {
			continue
		}
		require.Equal(t, 2, e.Object.Rev)
		heap.Look()
		if n++; n == rows {
			break
		}
	}
	heap.End("watch")
}
