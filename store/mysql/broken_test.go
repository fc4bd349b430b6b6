//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
	"github.com/setpoint-go/setpoint/wait"
)

// forgetful is a source whose watches go on at the present version when they have expired.
type forgetful struct{ *mysql.Table[site] }

func (f forgetful) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return func(yield func(informer.Event[site], error) bool) {
		for expired := true; expired; {
			expired = false
			for e, err := range f.Table.Watch(ctx, after) {
				if errors.Is(err, informer.ErrExpired) {
					l, err := f.List(ctx)
					after, expired = l.Version, err == nil
					break
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// allSettled makes every number one that no change will get.
const allSettled = "SELECT 0, 4611686018427387904"

// trustNumbers makes a table take the numbers of the log for the order of commits.
func trustNumbers(query string) string {
	switch {
	case strings.HasPrefix(query, "SELECT first, last FROM") && strings.Contains(query, "last > \x00n"), strings.HasPrefix(query, "SELECT g.first"):
		return allSettled
	}
	return query
}

// trustTransactions makes a table pass every number, once the server names no transaction that has written.
func trustTransactions(query string) string {
	switch {
	case strings.HasPrefix(query, "SELECT first, last FROM") && strings.Contains(query, "last > \x00n"), strings.HasPrefix(query, "SELECT g.first"):
		return allSettled + " FROM (SELECT COUNT(*) AS open FROM information_schema.INNODB_TRX WHERE trx_rows_modified > 0) t WHERE open = 0"
	}
	return query
}

type sabotage = func(t *testing.T, db *sql.DB, table *mysql.Table[site]) informer.ListWatcher[site]

func edited(edit func(string) string) sabotage {
	return func(t *testing.T, _ *sql.DB, table *mysql.Table[site]) informer.ListWatcher[site] {
		found := false
		table.EditQueries(func(query string) string {
			to := edit(query)
			found = found || to != query
			return to
		})
		require.True(t, found)
		return table
	}
}

// replaced replaces a part of a query, in which DB is the name of the database.
func replaced(old, new string) sabotage {
	return func(t *testing.T, db *sql.DB, table *mysql.Table[site]) informer.ListWatcher[site] {
		var name string
		require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
		in := strings.NewReplacer("DB", name, "{n}", "\x00n").Replace
		return edited(func(query string) string { return strings.ReplaceAll(query, in(old), in(new)) })(t, db, table)
	}
}

// Each of these sources has one mistake, which the suite finds.
func TestSuiteNoticesEachBrokenTable(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	monitor := tabletest.Connect(t, server, "")
	var watched sync.WaitGroup
	defer watched.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	watched.Go(func() { // reads INNODB_TRX, as monitors do. The server refreshes it only if nobody has read it for 0.1 s. It ends with stop
		for ctx.Err() == nil {
			var n int
			_ = monitor.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.INNODB_TRX").Scan(&n)
			_ = wait.Sleep(ctx, 20*time.Millisecond)
		}
	})
	for name, sabotage := range map[string]sabotage{
		"numbers are taken for the order of commits": edited(trustNumbers),
		"INNODB_TRX is taken for the present":        edited(trustTransactions),
		"a watch begins after the next change":       replaced("b.setpoint_n > {n} ORDER", "b.setpoint_n > {n} + 1 ORDER"),
		"a watch repeats the last change":            replaced("b.setpoint_n > {n} ORDER", "b.setpoint_n >= {n} ORDER"),
		"a list leaves out a row":                    replaced("FROM `DB`.`sites` t WHERE TRUE", "FROM `DB`.`sites` t WHERE t.name < (SELECT MAX(name) FROM `DB`.`sites`)"),
		"a list has the version of its last change":  replaced("WHERE d.next > d.n + 1 ORDER BY d.n", "WHERE FALSE"),
		"a row without a number is one that is gone": replaced("`name` IS NOT NULL, t.`name`", "rev IS NOT NULL, t.`name`"),
		"a watch takes a trimmed log for a whole one": func(_ *testing.T, _ *sql.DB, table *mysql.Table[site]) informer.ListWatcher[site] {
			return forgetful{table}
		},
		"the delete trigger is missing, which nobody notices": func(t *testing.T, db *sql.DB, table *mysql.Table[site]) informer.ListWatcher[site] {
			table.TrustTriggers()
			tabletest.Do(t, db, "DROP TRIGGER setpoint_sites_delete")
			return table
		},
		"a row that cannot be read is deleted": func(_ *testing.T, _ *sql.DB, table *mysql.Table[site]) informer.ListWatcher[site] {
			deleted := dbtest.AlterEvent(table, func(e *informer.Event[site]) bool {
				if e.Type == informer.Unreadable {
					e.Type, e.Err, e.KeyOnly = informer.Deleted, nil, true
				}
				return true
			})
			return dbtest.AlterPages(deleted, func(l *informer.List[site]) { l.Unread = nil })
		},
		"a deletion with only a key does not say so": func(_ *testing.T, _ *sql.DB, table *mysql.Table[site]) informer.ListWatcher[site] {
			return dbtest.AlterEvent(table, func(e *informer.Event[site]) bool { e.KeyOnly = false; return true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var noticed []string
			for _, c := range informertest.Cases[site]() {
				message := dbtest.FailureWithin(t, 2*time.Second, func(r testing.TB) {
					db := newSites(t, server, sites)
					c.Run(r, tabletest.Subject(t, db, sabotage(t, db, sitesIn(t, db, sites))))
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

// Each of these tables has one mistake, which random writers find in a table of a kind.
func TestRandomWritersNoticeEachBrokenTable(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	trigger := func(name, event, old, new string) func(t *testing.T, db *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			var body string
			require.NoError(t, db.QueryRow(`SELECT ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND TRIGGER_NAME = ?`, name).Scan(&body))
			require.Contains(t, body, old)
			tabletest.Do(t, db, "DROP TRIGGER "+name)
			tabletest.Do(t, db, "CREATE TRIGGER "+name+" AFTER "+event+" ON T FOR EACH ROW "+strings.ReplaceAll(body, old, new))
		}
	}
	for name, c := range map[string]struct {
		kind   string
		tables func(t *testing.T, db *sql.DB)
	}{
		"none":                  {kind: "binary text"},
		"a new key is not seen": {kind: "binary text", tables: trigger("setpoint_T_update", "UPDATE", "NEW.`name`)", "OLD.`name`)")},
		"keys are compared by their collation": {kind: "text that ignores case, accents, and spaces", tables: trigger("setpoint_T_update", "UPDATE",
			"NOT (CAST(OLD.`name` AS BINARY) <=> CAST(NEW.`name` AS BINARY))", "NOT (OLD.name <=> NEW.name)")},
		"an old key is logged as the new one": {kind: "composite, with numbers and times", tables: trigger("setpoint_T_update", "UPDATE", "OLD.`a`, OLD.`b`", "NEW.`a`, NEW.`b`")},
		"a deletion by REPLACE is not seen": {kind: "text of Latin letters, with a unique number", tables: func(t *testing.T, db *sql.DB) {
			tabletest.Do(t, db, "DROP TRIGGER setpoint_T_delete")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k := tabletest.Kinds()[c.kind]
			_, db, table := newTable(t, server, k)
			table.TrustTriggers()
			if c.tables != nil {
				c.tables(t, db)
			}
			table.SetGrace(5 * time.Millisecond)
			m := tabletest.NewMirror(t, table)
			// One transaction after another: what the cache lacks after it, no later transaction brings.
			random := rand.New(rand.NewPCG(1, 7))
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			var noticed error
			for round := 0; round < 400 && noticed == nil; round++ {
				require.NoError(t, k.Transaction(t.Context(), conn, random))
				noticed = m.Compare(t.Context(), k, db, table, 5*time.Second, delayOf(t, table))
			}
			if c.tables == nil {
				require.NoError(t, noticed)
				return
			}
			require.Error(t, noticed)
			t.Log(noticed)
		})
	}
}
