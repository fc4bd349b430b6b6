package sqlite_test

import (
	"context"
	"database/sql"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// Each of these sources has one mistake, which the suite finds.
func TestSuiteNoticesEachBrokenTable(t *testing.T) {
	skipWithRace(t)
	t.Parallel()
	replace := func(old, new string) func(t *testing.T, db *sql.DB, table *sqlite.Table[site]) informer.ListWatcher[site] {
		return func(t *testing.T, _ *sql.DB, table *sqlite.Table[site]) informer.ListWatcher[site] {
			found := false
			table.EditQueries(func(query string) string {
				found = found || strings.Contains(query, old)
				return strings.ReplaceAll(query, old, new)
			})
			require.True(t, found, old)
			return table
		}
	}
	for name, sabotage := range map[string]func(t *testing.T, db *sql.DB, table *sqlite.Table[site]) informer.ListWatcher[site]{
		"the version is that of the last row that is left": replace("coalesce((SELECT q.seq FROM main.sqlite_sequence q WHERE q.name = 'setpoint_changes'), 0)", "0"),
		"a watch begins after the next change":             replace("b.n > ?1", "b.n > ?1 + 1"),
		"a watch repeats the last change":                  replace("b.n > ?1", "b.n >= ?1"),
		"a watch takes a trimmed log for a whole one":      replace("this.n IS NOT NULL, this.r", "true, ?1 * 0 + (SELECT 1048575)"),
		"events have the state of the log, without rows":   replace("l.n, l.r, l.k1, t.\"name\" IS NOT NULL", "l.n, l.r, l.k1, t.\"rev\" IS NOT NULL"),
		"a list leaves out a row": replace("FROM main.\"sites\" t WHERE t.\"name\" IS NOT NULL",
			"FROM main.\"sites\" t WHERE t.rowid < (SELECT max(rowid) FROM sites)"),
		"the delete trigger is missing, which nobody notices": func(t *testing.T, db *sql.DB, table *sqlite.Table[site]) informer.ListWatcher[site] {
			table.TrustTriggers()
			do(t, db, `DROP TRIGGER "setpoint_changes sites delete"`)
			return table
		},
		"a row that cannot be read is deleted": func(_ *testing.T, _ *sql.DB, table *sqlite.Table[site]) informer.ListWatcher[site] {
			deleted := dbtest.AlterEvent(table, func(e *informer.Event[site]) bool {
				if e.Type == informer.Unreadable {
					e.Type, e.Err, e.KeyOnly = informer.Deleted, nil, true
				}
				return true
			})
			return dbtest.AlterPages(deleted, func(l *informer.List[site]) { l.Unread = nil })
		},
		"a deletion with only a key does not say so": func(_ *testing.T, _ *sql.DB, table *sqlite.Table[site]) informer.ListWatcher[site] {
			return dbtest.AlterEvent(table, func(e *informer.Event[site]) bool { e.KeyOnly = false; return true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var noticed []string
			for _, c := range informertest.Cases[site]() {
				message := dbtest.FailureWithin(t, 2*time.Second, func(r testing.TB) {
					db := newTable(t, "WAL", createSites, sites)
					c.Run(r, subject(t, db, sabotage(t, db, sitesIn(t, db, sites))))
				})
				if message != "" {
					noticed = append(noticed, c.Name+": "+message)
					break
				}
			}
			require.NotEmpty(t, noticed)
			t.Log(noticed)
		})
	}
}

// Numbers that a writer draws on another connection, before its transaction, are not in the order of commits.
func TestSuiteNoticesNumbersDrawnBeforeTransaction(t *testing.T) {
	skipWithRace(t)
	t.Parallel()
	noticed := false
	for _, c := range informertest.Cases[site]() {
		if !strings.Contains(c.Name, "overlap") && !strings.Contains(c.Name, "commit") {
			continue
		}
		message := dbtest.FailureWithin(t, 2*time.Second, func(r testing.TB) {
			db := newTable(t, "WAL", createSites, sites)
			table := sitesIn(t, db, sites)
			table.TrustTriggers()
			for _, name := range []string{"insert", "update", "delete"} {
				do(t, db, `DROP TRIGGER "setpoint_changes sites `+name+`"`)
			}
			do(t, db, `CREATE TABLE tickets (n INTEGER PRIMARY KEY); INSERT INTO tickets SELECT seq FROM sqlite_sequence`)
			var tickets sync.Mutex
			draw := func() (n int64) {
				tickets.Lock()
				defer tickets.Unlock()
				do(t, db, `INSERT INTO tickets DEFAULT VALUES`)
				require.NoError(t, db.QueryRow(`SELECT max(n) FROM tickets`).Scan(&n))
				return n
			}
			write := func(n int64, c informertest.Change) error {
				return inUserTx(context.Background(), db, func(tx *sql.Tx) error {
					if c.Delete {
						do(t, tx, `DELETE FROM sites WHERE name = ?`, c.Name)
					} else {
						do(t, tx, putSite, c.Name, c.Rev)
					}
					do(t, tx, `INSERT INTO setpoint_changes (n, source, k1) VALUES (?, 'sites', ?)`, n, c.Name)
					return nil
				})
			}
			s := subject(t, db, table)
			s.Put = func(name string, rev int) error { return write(draw(), informertest.Change{Name: name, Rev: rev}) }
			s.Delete = func(name string) error { return write(draw(), informertest.Change{Name: name, Delete: true}) }
			s.Overlap = func(first, second informertest.Change, look func()) error {
				one, two := draw(), draw()
				if err := write(two, second); err != nil {
					return err
				}
				look()
				return write(one, first)
			}
			c.Run(r, s)
		})
		noticed = noticed || message != ""
		if message != "" {
			t.Log(c.Name, message)
		}
	}
	assert.True(t, noticed)
}

// Each of these sources has one mistake, which random writers find in a table of a kind.
func TestRandomWritersNoticeEachBrokenTable(t *testing.T) {
	skipWithRace(t)
	t.Parallel()
	triggers := func(t *testing.T, db *sql.DB, edit func(name, text string) string) {
		rows, err := db.Query(`SELECT name, sql FROM sqlite_master WHERE type = 'trigger'`)
		require.NoError(t, err)
		all := map[string]string{}
		for rows.Next() {
			var name, text string
			require.NoError(t, rows.Scan(&name, &text))
			all[name] = text
		}
		require.NoError(t, rows.Err())
		edited := false
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text := edit(name, all[name])
			edited = edited || text != all[name]
			do(t, db, `DROP TRIGGER "`+name+`"`)
			if text != "" {
				do(t, db, text)
			}
		}
		require.True(t, edited)
	}
	without := func(part string) func(t *testing.T, db *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			triggers(t, db, func(name, text string) string {
				if strings.HasSuffix(name, part) {
					return ""
				}
				return text
			})
		}
	}
	replace := func(old, new string) func(t *testing.T, db *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			triggers(t, db, func(_, text string) string { return strings.ReplaceAll(text, old, new) })
		}
	}
	for name, c := range map[string]struct {
		kind     string
		sabotage func(t *testing.T, db *sql.DB)
		queries  func(string) string
	}{
		"none":                                     {kind: "text"},
		"a REPLACE by an INSERT is not seen":       {kind: "text", sabotage: without("replace by insert")},
		"a REPLACE by an UPDATE is not seen":       {kind: "text", sabotage: without("replace by update")},
		"a change of the key is not seen":          {kind: "numbered, with unique columns", sabotage: without(" update")},
		"keys are compared by their collation":     {kind: "nocase", sabotage: replace(" COLLATE BINARY", "")},
		"keys are compared by their value":         {kind: "any type", sabotage: replace("typeof(", "abs(0 * ")},
		"rows are looked up by the collation":      {kind: "nocase", queries: func(q string) string { return strings.ReplaceAll(q, " COLLATE BINARY", "") }},
		"a new row is expected to have its number": {kind: "numbered, with unique columns", sabotage: replace(`NEW."id" = -1 OR `, "")},
		"the log has a constraint": {kind: "numbered, with unique columns", sabotage: func(t *testing.T, db *sql.DB) {
			do(t, db, `CREATE UNIQUE INDEX u ON setpoint_changes (source, k1) WHERE n % 3 = 0`)
		}},
		"the version is in sqlite_sequence alone": {kind: "any type", queries: func(q string) string {
			return strings.ReplaceAll(q, `(SELECT max(m.n) FROM main."setpoint_changes" m)`, "0")
		}},
		"a conflict is compared by the binary values": {kind: "a key that is not the primary key", sabotage: replace(`COLLATE "NOCASE"`, `COLLATE BINARY`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kinds()[c.kind]
			var noticed error
			for seed := uint64(0); seed < 100 && noticed == nil; seed++ {
				path, db, table := k.newFile(t, "WAL")
				if c.sabotage != nil {
					c.sabotage(t, db)
				}
				table.TrustTriggers()
				if c.queries != nil {
					table.EditQueries(c.queries)
				}
				random := rand.New(rand.NewPCG(seed, 7))
				conn, schema, end, err := connect(t.Context(), path, random)
				require.NoError(t, err)
				do(t, conn, "PRAGMA recursive_triggers = OFF")
				do(t, conn, "DROP TABLE temp.setpoint_changes") // VACUUM would take it for the log, if that has an index with a condition
				m := newMirror(t, table)
				for round := 0; round < 40 && noticed == nil; round++ {
					left := 20
					if round%2 == 1 {
						left = 1 // what the cache lacks after it, no later transaction brings
					}
					require.NoError(t, k.write(t.Context(), conn, random, schema, func() bool { left--; return left < 0 }))
					noticed = m.compareWithin(t.Context(), k, db, table, 5*time.Second)
				}
				end()
				if name == "none" && seed == 3 {
					require.NoError(t, noticed)
					return
				}
			}
			require.Error(t, noticed)
			t.Log(noticed)
		})
	}
}

// skipWithRace skips a test of broken sources, which are as broken without the race detector.
func skipWithRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("it runs without the race detector")
	}
}
