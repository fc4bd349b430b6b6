//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
)

var cycles = flag.Int("cycles", 2, "how often each fault happens")

// TestMain makes the test binary a writer process if the environment says so.
func TestMain(m *testing.M) {
	tableWriterMain()
	dbtest.WriterMain(openStore)
	flag.Parse()
	dbtest.LimitParallel("4") // each server and each process needs memory
	os.Exit(m.Run())
}

// entry is a row of a table of any kind.
type entry struct {
	Key, Tag string
	Born     uint64
	V        int64
}

// scan reads a row.
func (k kind) scan(row mysql.Row) (e entry, err error) {
	values := make([]sql.NullString, len(k.key))
	var dest []any
	for i := range values {
		dest = append(dest, &values[i])
	}
	var tag sql.NullString
	if err := row.Scan(append(dest, &e.Born, &e.V, &tag)...); err != nil {
		return e, err
	}
	for _, v := range values {
		e.Key += fmt.Sprintf("%q/", v.String)
	}
	e.Tag = tag.String
	return e, nil
}

// rows reads the table, with a query of the test.
func (k kind) rows(ctx context.Context, db *sql.DB) (map[string]entry, error) {
	rows, err := db.QueryContext(ctx, `SELECT `+strings.Join(k.key, ", ")+`, born, v, tag FROM T WHERE `+strings.Join(k.key, " IS NOT NULL AND ")+` IS NOT NULL`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	found := map[string]entry{}
	for rows.Next() {
		e, err := k.scan(rows)
		if err != nil {
			return nil, err
		}
		found[e.Key] = e
	}
	return found, rows.Err()
}

// newTable creates a table of a kind, and its log, in a database of its own.
func (k kind) newTable(t testing.TB, server *servertest.Server) (database string, db *sql.DB, table *mysql.Table[entry]) {
	t.Helper()
	db = newDatabase(t, server)
	for statement := range strings.SplitSeq(k.create, ";\n") {
		for part := range strings.SplitSeq(statement, "; INSERT") {
			if !strings.HasPrefix(strings.TrimSpace(part), "CREATE") && !strings.HasPrefix(strings.TrimSpace(part), "INSERT") {
				part = "INSERT" + part
			}
			do(t, db, part)
		}
	}
	cfg := k.config
	cfg.Table, cfg.Columns, cfg.Poll = "T", append(slices.Clone(k.key), "born", "v", "tag"), 2*time.Millisecond
	require.NoError(t, mysql.InstallTable(t.Context(), db, cfg))
	table, err := mysql.NewTable(t.Context(), db, k.scan, cfg)
	require.NoError(t, err)
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&database))
	return database, db, table
}

// mirror is an informer of a table, and what its handler has seen.
type mirror struct {
	inf *informer.Informer[string, entry]

	mu sync.Mutex
	// mu guards the following.
	last  map[string]entry
	dead  map[string]bool // the key and the born of a row that was replaced
	lists int
	ends  []string // errors of watches
	wrong []string
}

func newMirror(t testing.TB, source informer.ListWatcher[entry]) *mirror {
	t.Helper()
	m := &mirror{last: map[string]entry{}, dead: map[string]bool{}}
	var err error
	m.inf, err = informer.New(counted{source, m}, func(e entry) string { return e.Key }, informer.Config{OnError: func(err error) {
		m.mu.Lock()
		m.ends = append(m.ends, err.Error())
		m.mu.Unlock()
	}})
	require.NoError(t, err)
	saw := func(e entry) {
		m.mu.Lock()
		defer m.mu.Unlock()
		before, ok := m.last[e.Key]
		id := fmt.Sprint(e.Key, e.Born)
		switch {
		case m.dead[id]:
			m.wrong = append(m.wrong, fmt.Sprintf("%v comes back after %v", e, before))
		case ok && before.Born == e.Born && e.V < before.V:
			m.wrong = append(m.wrong, fmt.Sprintf("%v goes back to %v", before, e))
		case ok && before.Born != e.Born:
			m.dead[fmt.Sprint(before.Key, before.Born)] = true
		}
		m.last[e.Key] = e
	}
	_, err = m.inf.AddHandler(informer.Handler[string, entry]{
		EveryEvent: true,
		OnAdd:      func(e entry, _ bool) { saw(e) },
		OnUpdate:   func(_, e entry) { saw(e) },
		OnDelete: func(e cache.Tombstone[string, entry]) {
			if e.Object.Tag == "keep" {
				m.complain("the row that nobody deletes was deleted")
			}
		},
	})
	require.NoError(t, err)
	loop := looptest.StartIn(context.WithoutCancel(t.Context()), t, m.inf.Run)
	t.Cleanup(func() { require.NoError(t, loop.Stop()) })
	return m
}

func (m *mirror) complain(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// compare waits until the cache has everything, and compares it with the table. Nobody may write.
func (m *mirror) compare(ctx context.Context, k kind, db *sql.DB, table *mysql.Table[entry], patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := table.LatestVersion(ctx)
	if err != nil {
		return err
	}
	if err := m.inf.WaitForVersion(ctx, v); err != nil {
		delay, why := table.Delay(context.WithoutCancel(ctx))
		m.mu.Lock()
		defer m.mu.Unlock()
		return fmt.Errorf("%w: %v %v, delay %+v %v", err, m.wrong, m.ends, delay, why)
	}
	want, err := k.rows(ctx, db)
	if err != nil {
		return err
	}
	if got := maps.Collect(m.inf.All()); !maps.Equal(got, want) {
		return fmt.Errorf("the cache has %v, want %v", got, want)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wrong) > 0 {
		return errors.New(strings.Join(m.wrong, "\n"))
	}
	return nil
}

// counted counts the lists of a source.
type counted struct {
	informer.ListWatcher[entry]
	m *mirror
}

func (c counted) List(ctx context.Context) (informer.List[entry], error) {
	c.m.mu.Lock()
	c.m.lists++
	c.m.mu.Unlock()
	return c.ListWatcher.List(ctx)
}

// advance waits until the log has so many more numbers.
func advance(t testing.TB, db *sql.DB, by int) {
	t.Helper()
	last := func() (n int) {
		require.NoError(t, db.QueryRow(`SELECT MAX(setpoint_n) FROM setpoint_T`).Scan(&n))
		return n
	}
	goal, looks := last()+by, 0
	require.Eventually(t, func() bool {
		if looks++; looks%100 == 0 {
			endPrepared(t, db) // of a writer that was killed, whose locks stop the others
		}
		return last() >= goal
	}, time.Minute, 5*time.Millisecond)
}

// endPrepared ends the transactions that killed writers have prepared.
func endPrepared(t testing.TB, db *sql.DB) {
	t.Helper()
	var rows *sql.Rows
	require.Eventually(t, func() (ok bool) { // a connection of before a restart may be broken
		var err error
		rows, err = db.Query("XA RECOVER")
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	var ids []string
	for rows.Next() {
		var format, global, branch int
		var id string
		require.NoError(t, rows.Scan(&format, &global, &branch, &id))
		ids = append(ids, id)
	}
	require.NoError(t, rows.Err())
	for i, id := range ids { // some may be of writers that are alive
		_, err := db.Exec([]string{"XA COMMIT '", "XA ROLLBACK '"}[i%2] + id + "'")
		require.True(t, err == nil || refused(err), err)
	}
}

// Writers of several processes, which are killed and restarted, write each kind of table at random. The caches equal the table in the end, no
// row goes back, and no deletion is invented.
func TestCachesMatchTablesDespiteRandomWriters(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			database, db, table := k.newTable(t, server)
			mirrors := []*mirror{newMirror(t, table)}
			for range *cycles {
				p := dbtest.StartProcesses(t, 3, tableWriter, func(seed uint64) string {
					return fmt.Sprintf("%s\n%s\n%s\n%d", server.Addr(), database, name, seed*100+uint64(len(mirrors)))
				})
				for range 2 {
					advance(t, db, 100)
					p.Kill()
				}
				if len(mirrors) < 3 {
					mirrors = append(mirrors, newMirror(t, table))
				}
				advance(t, db, 100)
				p.Stop()
				endPrepared(t, db)
				for _, m := range mirrors {
					require.NoError(t, m.compare(t.Context(), k, db, table, 20*time.Second))
				}
			}
			var n int
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM setpoint_T").Scan(&n))
			t.Logf("%d kills, %d changes, %d lists of the first of %d caches, %v", 2**cycles, n, mirrors[0].lists, len(mirrors), mirrors[0].ends)
		})
	}
}
