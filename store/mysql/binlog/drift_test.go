//go:build linux

package binlog_test

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// A table changes under a watch, so that the binary log does not have the changes as rows, or cannot be read. The watch ends, and says why. Then
// everything is right again.
func TestWatchEndsWhenTheLogLacksRows(t *testing.T) {
	t.Parallel()
	server := newServer(t, "log-bin-trust-function-creators")
	const expired = "expired"
	for name, c := range map[string]struct{ drift, want, heal string }{
		"the primary key is another":           {"ALTER TABLE sites DROP PRIMARY KEY, ADD PRIMARY KEY (name, rev)", "its primary key has changed from (name) to (name, rev)", "ALTER TABLE sites DROP PRIMARY KEY, ADD PRIMARY KEY (name)"},
		"the key has no index":                 {"ALTER TABLE sites DROP PRIMARY KEY", "it has no primary key", "ALTER TABLE sites ADD PRIMARY KEY (name)"},
		"the key has another type":             {"ALTER TABLE sites MODIFY name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL; INSERT INTO sites VALUES (REPEAT('x', 150), 5)", expired, ""},
		"the key has another collation":        {"ALTER TABLE sites MODIFY name VARCHAR(100) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL; INSERT INTO sites VALUES ('C', 5)", expired, ""},
		"a column of the key is renamed":       {"ALTER TABLE sites CHANGE name title VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", `it has no column "name"`, "ALTER TABLE sites CHANGE title name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"},
		"the table is renamed":                 {"RENAME TABLE sites TO places; INSERT INTO places VALUES ('c', 3)", "there is no such table", "RENAME TABLE places TO sites"},
		"the table is dropped":                 {"DROP TABLE sites", "there is no such table", tabletest.CreateSites},
		"a copy takes the place":               {"CREATE TABLE copy LIKE sites; INSERT INTO copy SELECT * FROM sites; RENAME TABLE sites TO before_it, copy TO sites; INSERT INTO sites VALUES ('c', 3)", expired, ""},
		"the table is made anew":               {"DROP TABLE sites; " + tabletest.CreateSites + "; INSERT INTO sites VALUES ('c', 3)", expired, ""},
		"the table is replaced":                {"CREATE OR REPLACE " + strings.TrimPrefix(tabletest.CreateSites, "CREATE ") + " SELECT 'c' AS name, 3 AS rev", expired, ""},
		"the table is truncated":               {"TRUNCATE sites", expired, ""},
		"the table is truncated, with words":   {"/* all */ TRUNCATE TABLE `sites`; INSERT INTO sites VALUES ('c', 3)", expired, ""},
		"a column has another definition":      {"ALTER TABLE sites MODIFY rev BIGINT", expired, ""},
		"a column is added in front":           {"ALTER TABLE sites ADD COLUMN more INT DEFAULT 5 FIRST; INSERT INTO sites (name, rev) VALUES ('c', 3)", expired, ""},
		"the engine is another one":            {"ALTER TABLE sites ENGINE = MyISAM", "it has the engine MyISAM", "ALTER TABLE sites ENGINE = InnoDB"},
		"a statement is logged":                {"SET SESSION binlog_format = STATEMENT; UPDATE sites SET rev = 7; SET SESSION binlog_format = ROW", expired, ""},
		"a statement is logged, with a prefix": {"SET STATEMENT binlog_format = STATEMENT FOR DELETE FROM sites", expired, ""},
		"a mixed session":                      {"SET SESSION binlog_format = MIXED; INSERT INTO sites VALUES ('c', 3); SET SESSION binlog_format = ROW", expired, ""},
		"a function writes":                    {"SET SESSION binlog_format = STATEMENT; DO f(); SET SESSION binlog_format = ROW", expired, ""},
		"a trigger of another table writes":    {"SET SESSION binlog_format = STATEMENT; INSERT INTO triggered VALUES (1); SET SESSION binlog_format = ROW", expired, ""},
		"the rows lack the key":                {"ALTER TABLE sites ADD COLUMN id INT AUTO_INCREMENT UNIQUE", expired, ""},
		"the format is another one":            {"SET GLOBAL binlog_format = MIXED; DO SLEEP(6)", "binlog_format is MIXED, must be ROW", "SET GLOBAL binlog_format = ROW"},
		"only rows":                            {"INSERT INTO sites VALUES ('c', 3); UPDATE sites SET name = 'd' WHERE name = 'b'", "", ""},
		"nothing to do with it":                {"CREATE TABLE others (a INT PRIMARY KEY); INSERT INTO others VALUES (1); TRUNCATE others; CREATE USER other; GRANT SELECT ON sites TO other; ANALYZE TABLE sites; INSERT INTO sites VALUES ('c', 3)", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			// Not in parallel: a statement in the log ends all watches.
			cfg := sitesOn(server)
			var log looptest.Text
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			cfg.Columns = []string{"name", "rev"}
			db := newSites(t, server)
			table := sitesIn(t, db, cfg)
			tabletest.Do(t, db, "CREATE FUNCTION f() RETURNS INT BEGIN DELETE FROM sites WHERE name = 'a'; RETURN 1; END")
			tabletest.Do(t, db, "CREATE TABLE triggered (a INT PRIMARY KEY)")
			tabletest.Do(t, db, "CREATE TRIGGER g AFTER INSERT ON triggered FOR EACH ROW DELETE FROM `sites` WHERE name = 'a'")
			tabletest.Do(t, db, "INSERT INTO sites VALUES ('a', 1), ('b', 2)")
			list, err := table.List(t.Context())
			require.NoError(t, err)
			inf := tabletest.Follow(t, table, tabletest.SiteName)
			tabletest.Agree(t, db, inf)
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
			select {
			case <-began:
			case err := <-ended:
				t.Fatal(err)
			}
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			for statement := range strings.SplitSeq(c.drift, "; ") {
				tabletest.Do(t, conn, statement)
			}
			if c.want == "" {
				tabletest.Agree(t, db, inf)
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
				tabletest.Agree(t, db, inf)
				formats := strings.Contains(c.drift, "STATEMENT") || strings.Contains(c.drift, "MIXED")
				assert.Equal(t, formats, strings.Contains(log.String(), "the binary log has a statement instead of rows"), "%s", &log)
				return
			}
			require.ErrorContains(t, err, c.want)
			_, err = table.List(t.Context())
			require.ErrorContains(t, err, c.want)
			tabletest.Do(t, db, c.heal)
			tabletest.Agree(t, db, inf)
			tabletest.Do(t, db, "REPLACE INTO sites VALUES ('d', 4)")
			tabletest.Do(t, db, "DELETE FROM sites WHERE name = 'a'")
			tabletest.Agree(t, db, inf)
		})
	}
}

// Actions of foreign keys are not in the log. A comparison finds them, which the log suggests. It also finds writes that were not logged.
func TestComparisonFindsChangesWithoutTheLog(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for name, c := range map[string]struct {
		change string
		verify time.Duration
	}{
		"a cascade":            {"DELETE FROM parents WHERE id = 1", time.Hour},
		"a cascade of two":     {"DELETE FROM grandparents WHERE id = 1", time.Hour},
		"an updating cascade":  {"UPDATE parents SET id = 9 WHERE id = 1", time.Hour},
		"a cascade by REPLACE": {"REPLACE INTO parents VALUES (1, 1)", time.Hour},
		"a write without log":  {"SET STATEMENT sql_log_bin = 0 FOR DELETE FROM sites WHERE name = 'a'", 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log looptest.Text
			cfg := sitesOn(server)
			cfg.Logger, cfg.Verify = slog.New(slog.NewTextHandler(&log, nil)), c.verify
			db := newDatabase(t, server)
			tabletest.Do(t, db, "CREATE TABLE grandparents (id INT PRIMARY KEY)")
			tabletest.Do(t, db, "CREATE TABLE parents (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES grandparents (id) ON DELETE CASCADE)")
			tabletest.Do(t, db, "INSERT INTO grandparents VALUES (1), (2)")
			tabletest.Do(t, db, "INSERT INTO parents VALUES (1, 1), (2, 2)")
			tabletest.Do(t, db, strings.TrimSuffix(tabletest.CreateSites, ")")+", FOREIGN KEY (rev) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)")
			tabletest.Do(t, db, "INSERT INTO sites VALUES ('a', 1), ('b', 2)")
			table := sitesIn(t, db, cfg)
			inf, other := tabletest.Follow(t, table, tabletest.SiteName), tabletest.Follow(t, sitesIn(t, db, cfg), tabletest.SiteName)
			tabletest.Agree(t, db, inf)
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			if strings.Contains(c.change, "sql_log_bin") {
				tabletest.Do(t, conn, "SET SESSION sql_log_bin = 0")
				tabletest.Do(t, conn, "DELETE FROM sites WHERE name = 'a'")
				tabletest.Do(t, conn, "SET SESSION sql_log_bin = 1")
			} else {
				tabletest.Do(t, conn, c.change)
			}
			want := tabletest.RowsOf(t, db)
			for _, inf := range []*informer.Informer[string, site]{inf, other} {
				require.Eventually(t, func() bool { return maps.Equal(want, maps.Collect(inf.All())) }, 20*time.Second, 10*time.Millisecond)
			}
			assert.Contains(t, log.String(), "a table has changed without its binary log")
			warned := strings.Count(log.String(), "\n")
			for n := range 20 { // changes in the log are no differences, nor are parents without children
				tabletest.Do(t, db, "INSERT INTO parents VALUES (?, 2)", 100+n)
				tabletest.Do(t, db, tabletest.PutSite, "a", 100+n)
				tabletest.Do(t, db, "INSERT INTO parents VALUES (?, 2)", 1000+n)
				tabletest.Do(t, db, "DELETE FROM parents WHERE id = ?", 1000+n)
				time.Sleep(30 * time.Millisecond)
			}
			tabletest.Agree(t, db, inf)
			assert.Equal(t, warned, strings.Count(log.String(), "\n"), "%s", &log)
		})
	}
}

// An action of a foreign key of the table to itself.
func TestComparisonFindsCascadesWithinTheTable(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	cfg := sitesOn(server)
	cfg.Verify, cfg.Logger, cfg.Columns = time.Hour, slog.New(slog.DiscardHandler), []string{"name", "rev"}
	db := newDatabase(t, server)
	tabletest.Do(t, db, strings.TrimSuffix(tabletest.CreateSites, ")")+", up VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, FOREIGN KEY (up) REFERENCES sites (name) ON DELETE CASCADE)")
	tabletest.Do(t, db, "INSERT INTO sites VALUES ('a', 1, NULL), ('b', 2, 'a'), ('c', 3, 'b')")
	inf := tabletest.Follow(t, sitesIn(t, db, cfg), tabletest.SiteName)
	require.Equal(t, 3, inf.Indexer().Len())
	tabletest.Do(t, db, "DELETE FROM sites WHERE name = 'a'")
	require.Eventually(t, func() bool { return inf.Indexer().Len() == 0 }, 20*time.Second, 10*time.Millisecond)
}

// An action of a foreign key deletes a row without an event of rows. A comparison finds it.
func TestRowsThatVanishAreFound(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for _, c := range informertest.Cases[site]() {
		if !strings.Contains(c.Name, "vanished") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			cfg := sitesOn(server)
			cfg.Verify, cfg.Logger = time.Hour, slog.New(slog.DiscardHandler)
			db := newDatabase(t, server)
			tabletest.CreateSitesOfParents(t, db)
			c.Run(t, tabletest.SubjectOfParents(t, db, sitesIn(t, db, cfg)))
		})
	}
}

// RESET MASTER empties the binary log under a watch. The server tells the watch nothing. A version of the old log is of another history.
func TestAnotherLogBeginsNewHistory(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newSites(t, server)
	table := sitesIn(t, db, sitesOn(server))
	table.SetCheckPeriod(100 * time.Millisecond)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	for range *cycles {
		for _, after := range []int{0, 1, 20} { // changes after the loss: fewer than the watch has seen, and more
			for n := range 10 {
				tabletest.Do(t, db, tabletest.PutSite, "before", n)
			}
			l, err := table.List(t.Context())
			require.NoError(t, err)
			tabletest.Agree(t, db, inf)
			time.Sleep(1100 * time.Millisecond) // the server notes the second in which a file has begun
			tabletest.Do(t, db, "RESET MASTER")
			for i := range after {
				tabletest.Do(t, db, tabletest.PutSite, "after", i)
			}
			require.Eventually(t, func() bool { return maps.Equal(tabletest.RowsOf(t, db), maps.Collect(inf.All())) }, 20*time.Second, 10*time.Millisecond)
			for _, err := range table.Watch(t.Context(), l.Version) {
				require.ErrorIs(t, err, informer.ErrNewHistory)
			}
			tabletest.Do(t, db, "DELETE FROM sites")
			require.Eventually(t, func() bool { return inf.Indexer().Len() == 0 }, 20*time.Second, 10*time.Millisecond)
		}
	}
}
