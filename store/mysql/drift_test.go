//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
)

// A table changes under a watch, so that the log lacks changes or cannot be read. The watch ends, and says what to do. Then everything is right
// again.
func TestWatchEndsWhenTableAndLogDriftApart(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	const missing, expired = "call mysql.InstallTable", "expired"
	for name, c := range map[string]struct{ drift, want, heal string }{
		"a trigger is dropped":             {"DROP TRIGGER setpoint_sites_delete; DELETE FROM sites", missing, ""},
		"a trigger is another one":         {"DROP TRIGGER setpoint_sites_insert; CREATE TRIGGER setpoint_sites_insert AFTER INSERT ON sites FOR EACH ROW SET @x = 1; INSERT INTO sites VALUES ('c', 3)", missing, ""},
		"the primary key is another":       {"ALTER TABLE sites DROP PRIMARY KEY, ADD PRIMARY KEY (name, rev)", "its primary key has changed from (name) to (name, rev)", "ALTER TABLE sites DROP PRIMARY KEY, ADD PRIMARY KEY (name)"},
		"the key has no index":             {"ALTER TABLE sites DROP PRIMARY KEY", "it has no primary key", "ALTER TABLE sites ADD PRIMARY KEY (name)"},
		"the key has another type":         {"ALTER TABLE sites MODIFY name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL; INSERT INTO sites VALUES (REPEAT('x', 150), 5)", missing, ""},
		"the key has another collation":    {"ALTER TABLE sites MODIFY name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL; INSERT INTO sites VALUES ('C', 5)", missing, ""},
		"a column of the key is renamed":   {"ALTER TABLE sites CHANGE name title VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", `it has no column "name"`, "ALTER TABLE sites CHANGE title name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"},
		"the table is renamed":             {"RENAME TABLE sites TO places; INSERT INTO places VALUES ('c', 3)", "there is no such table", "RENAME TABLE places TO sites"},
		"a copy takes the place":           {"CREATE TABLE copy LIKE sites; INSERT INTO copy SELECT * FROM sites; RENAME TABLE sites TO before_it, copy TO sites; INSERT INTO sites VALUES ('c', 3)", missing, "DROP TABLE before_it"},
		"the table is made anew":           {"DROP TABLE sites; " + tabletest.CreateSites + "; INSERT INTO sites VALUES ('c', 3)", missing, ""},
		"the log is dropped":               {"DROP TABLE setpoint_sites", "is missing: call mysql.InstallTable", ""},
		"the gaps are dropped":             {"DROP TABLE setpoint_sites_gaps", "is missing: call mysql.InstallTable", ""},
		"a column of the log is gone":      {"ALTER TABLE setpoint_sites DROP COLUMN name", missing, ""},
		"a column has another definition":  {"ALTER TABLE sites MODIFY rev BIGINT", expired, ""},
		"a column is added":                {"ALTER TABLE sites ADD COLUMN more INT DEFAULT 5, FORCE; INSERT INTO sites (name, rev) VALUES ('c', 3)", "", ""},
		"the engine is another one":        {"ALTER TABLE sites ENGINE = MyISAM", "it has the engine MyISAM", "ALTER TABLE sites ENGINE = InnoDB"},
		"the triggers are installed again": {"DROP TRIGGER setpoint_sites_delete; DELETE FROM sites; CALL install", expired, ""},
		"nothing to do with it":            {"CREATE TABLE others (a INT); CREATE INDEX i ON sites (rev); INSERT INTO sites VALUES ('c', 3)", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := sites
			cfg.Columns = []string{"name", "rev"}
			db := newSites(t, server, cfg)
			table := sitesIn(t, db, cfg)
			tabletest.Do(t, db, "INSERT INTO sites VALUES ('a', 1), ('b', 2)")
			list, err := table.List(t.Context())
			require.NoError(t, err)
			inf := tabletest.Follow(t, table, tabletest.SiteName)
			agree(t, db, table, inf)
			ended := make(chan error, 1)
			began := make(chan struct{}, 1000)
			loop := looptest.StartIn(context.WithoutCancel(t.Context()), t, func(ctx context.Context) error {
				for _, err := range table.Watch(ctx, list.Version) {
					if err != nil {
						ended <- err
						return nil
					}
					began <- struct{}{}
				}
				return nil
			})
			tabletest.Do(t, db, tabletest.PutSite, "b", 3)
			<-began
			for statement := range strings.SplitSeq(c.drift, "; ") {
				if statement == "CALL install" {
					require.NoError(t, mysql.InstallTable(t.Context(), db, cfg))
				} else {
					tabletest.Do(t, db, statement) // no writer fails
				}
			}
			if c.want == "" {
				agree(t, db, table, inf)
				require.NoError(t, loop.Stop())
				return
			}
			select {
			case err = <-ended:
			case <-time.After(20 * time.Second):
				t.Fatal("the watch goes on")
			}
			require.NoError(t, loop.Stop())
			if c.want == expired {
				require.ErrorIs(t, err, informer.ErrExpired)
				agree(t, db, table, inf)
				return
			}
			require.ErrorContains(t, err, c.want)
			_, err = table.List(t.Context())
			require.ErrorContains(t, err, c.want)
			_, err = mysql.NewTable(t.Context(), db, tabletest.ScanSite, cfg)
			require.Error(t, err)
			if c.heal != "" {
				tabletest.Do(t, db, c.heal)
			}
			require.NoError(t, mysql.InstallTable(t.Context(), db, cfg))
			agree(t, db, table, inf)
			tabletest.Do(t, db, "REPLACE INTO sites VALUES ('d', 4)")
			tabletest.Do(t, db, "DELETE FROM sites WHERE name = 'a'")
			agree(t, db, table, inf)
		})
	}
}

// The server is killed and started again, while writers of several processes write.
func TestCachesMatchTableWhenServerIsKilled(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	const name = "text that ignores case, accents, and spaces"
	k := tabletest.Kinds()[name]
	database, db, table := newTable(t, server, k)
	m := tabletest.NewMirror(t, table)
	p := tabletest.StartWriters(t, 3, server.Addr(), database, name, 0, "ROW", "ROW", "MIXED")
	for range *cycles {
		advance(t, db, 100)
		server.Restart()
		tabletest.EndPrepared(t, db) // or they keep their locks
	}
	advance(t, db, 100)
	p.Stop()
	tabletest.EndPrepared(t, db)
	require.NoError(t, m.Compare(t.Context(), k, db, table, 20*time.Second, delayOf(t, table)))
	lists, _ := m.Lists()
	t.Logf("%d kills, %d lists", *cycles, lists)
}

// The server loses its last changes, as in a failover to a replica that lagged, and has others under the same numbers.
func TestLostChangesBeginNewHistory(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for range *cycles {
		for after := range 4 { // changes after the loss: fewer than the watch has seen, as many, and more
			t.Run(fmt.Sprint(after), func(t *testing.T) {
				db := newSites(t, server, sites)
				cfg := sites
				cfg.Poll = time.Hour
				table := sitesIn(t, db, cfg)
				inf := tabletest.Follow(t, table, tabletest.SiteName)
				tabletest.Do(t, db, tabletest.PutSite, "before", 1)
				agree(t, db, table, inf)
				saved := backup(t, db)
				tabletest.Do(t, db, tabletest.PutSite, "lost", 1)
				tabletest.Do(t, db, "DELETE FROM sites WHERE name = 'before'")
				agree(t, db, table, inf)
				saved.restore(t, db)
				for i := range after {
					tabletest.Do(t, db, tabletest.PutSite, fmt.Sprintf("new %d", i), after)
				}
				agree(t, db, table, inf)
			})
		}
	}
}

// Rows that row-based replication applies fire no triggers, and a server that is read-only is not the primary.
func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server, sites)
	table := sitesIn(t, db, sites)
	tabletest.Do(t, db, "SET GLOBAL read_only = 1")
	_, err := mysql.NewTable(t.Context(), db, tabletest.ScanSite, sites)
	require.ErrorContains(t, err, "the server is read-only: connect to the primary")
	_, err = table.List(t.Context())
	require.ErrorContains(t, err, "the server is read-only")
	tabletest.Do(t, db, "SET GLOBAL read_only = 0, GLOBAL auto_increment_increment = 2")
	other, err := sql.Open("mysql", "root@tcp("+server.Addr()+")/")
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.ErrorContains(t, mysql.InstallTable(t.Context(), db, sites), "auto_increment_increment is 2, must be 1")
}

// Without a privilege or a setting, the server refuses the triggers, and the table is as it was.
func TestBinaryLogNeedsTrust(t *testing.T) {
	t.Parallel()
	server := newServer(t, "log-bin-trust-function-creators=0")
	db := newDatabase(t, server)
	tabletest.Do(t, db, tabletest.CreateSites)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	tabletest.Do(t, db, "CREATE USER deployer")
	tabletest.Do(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, TRIGGER, LOCK TABLES ON "+name+".* TO deployer")
	pool, err := tabletest.OpenPool(tabletest.DSN("deployer", server.Addr(), name, ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	require.ErrorContains(t, mysql.InstallTable(t.Context(), pool, sites), "1419")
	tabletest.Do(t, db, tabletest.PutSite, "a", 1)
	tabletest.Do(t, db, "SET GLOBAL log_bin_trust_function_creators = 1")
	require.NoError(t, mysql.InstallTable(t.Context(), pool, sites))
	table := sitesIn(t, pool, sites)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	tabletest.Do(t, db, tabletest.PutSite, "b", 1)
	agree(t, db, table, inf)
}

// A connection is half-open: its other side has vanished silently. A watch notices it, and its informer goes on when the server is back.
func TestWatchEndsIfServerIsSilent(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server, sites)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	proxy := servertest.NewProxy(t, server.Addr())
	far, err := tabletest.OpenPool(tabletest.DSN("root", proxy.Addr(), name, "timeout=1s"))
	require.NoError(t, err)
	defer func() { require.NoError(t, far.Close()) }()
	table := sitesIn(t, far, sites)
	table.SetPatience(time.Second)
	broken := make(chan error, 100)
	inf, err := informer.New(table, tabletest.SiteName, informer.Config{OnError: func(err error) {
		select {
		case broken <- err:
		default:
		}
	}})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	for n := range *cycles {
		tabletest.Do(t, db, tabletest.PutSite, "a", n)
		agree(t, db, table, inf)
		proxy.Stall()
		tabletest.Do(t, db, tabletest.PutSite, "a", n+1)
		select {
		case err := <-broken:
			require.NotErrorIs(t, err, informer.ErrExpired)
		case <-time.After(20 * time.Second):
			t.Fatal("the watch goes on")
		}
		proxy.Heal()
		require.Eventually(t, func() bool { a, _ := inf.Get("a"); return a.Rev == n+1 }, 20*time.Second, 10*time.Millisecond)
	}
}

// Another log takes the place of the log, as in a restore, and has as many changes. A watch that polls notices it.
func TestAnotherLogWithAsManyChangesIsNoticed(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server, sites)
	table := sitesIn(t, db, sites)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	tabletest.Do(t, db, tabletest.PutSite, "a", 1)
	agree(t, db, table, inf)
	lists := inf.Stats().Lists
	tabletest.Do(t, db, "CREATE TABLE another LIKE setpoint_sites")
	tabletest.Do(t, db, "INSERT INTO another SELECT * FROM setpoint_sites")
	tabletest.Do(t, db, "UPDATE another SET setpoint_r = IF(setpoint_r = 0, 1, setpoint_r - 1)")
	tabletest.Do(t, db, "RENAME TABLE setpoint_sites TO gone, another TO setpoint_sites")
	require.Eventually(t, func() bool { return inf.Stats().Lists > lists }, 20*time.Second, time.Millisecond)
	agree(t, db, table, inf)
}

// A table that happens to have the name of the log, or of its gaps, is not touched: such as one of mysql.Open.
func TestTableWithNameOfLogIsRefused(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for name, c := range map[string]struct{ create, log, want string }{
		"of a store":  {"", "setpoint_objects", `the table "setpoint_objects" is not a log: name another in TableConfig.Log`},
		"of the user": {"CREATE TABLE orders (id INT PRIMARY KEY, total INT)", "orders", `the table "orders" is not a log: name another in TableConfig.Log`},
		"of gaps": {
			"CREATE TABLE orders_gaps (id INT PRIMARY KEY, total INT)", "orders",
			`the table "orders_gaps" is not that of a log: name another in TableConfig.Log`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDatabase(t, server)
			tabletest.Do(t, db, tabletest.CreateSites)
			if c.create == "" {
				require.NoError(t, mysql.Migrate(t.Context(), db, mysql.Config{}))
			} else {
				tabletest.Do(t, db, c.create)
			}
			schema := func() (all string) {
				require.NoError(t, db.QueryRow(`SELECT GROUP_CONCAT(TABLE_NAME, '.', COLUMN_NAME ORDER BY TABLE_NAME, ORDINAL_POSITION)
					FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()`).Scan(&all))
				return all
			}
			before := schema()
			cfg := sites
			cfg.Log = c.log
			require.ErrorContains(t, mysql.InstallTable(t.Context(), db, cfg), c.want)
			_, err := mysql.TableSQL(t.Context(), db, cfg)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, before, schema())
		})
	}
}
