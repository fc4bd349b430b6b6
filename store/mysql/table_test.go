//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
)

// fast are the settings of a server that no test cuts the power of.
var fast = []string{"innodb-flush-log-at-trx-commit=2", "log-bin", "log-bin-trust-function-creators"}

func newServer(t testing.TB, settings ...string) *servertest.Server {
	t.Helper()
	return servertest.MariaDB(t, append(append([]string(nil), fast...), settings...)...)
}

type site = tabletest.Site

// newDatabase creates a database, and returns a pool for it.
var newDatabase = tabletest.NewDatabases()

var sites = mysql.TableConfig{Table: "sites", Poll: 5 * time.Millisecond}

// newSites creates a table and its log, in a database of its own.
func newSites(t testing.TB, server *servertest.Server, cfg mysql.TableConfig) *sql.DB {
	t.Helper()
	db := newDatabase(t, server)
	tabletest.Do(t, db, tabletest.CreateSites)
	require.NoError(t, mysql.InstallTable(t.Context(), db, cfg))
	return db
}

func sitesIn(t testing.TB, db *sql.DB, cfg mysql.TableConfig) *mysql.Table[site] {
	t.Helper()
	table, err := mysql.NewTable(t.Context(), db, tabletest.ScanSite, cfg)
	require.NoError(t, err)
	return table
}

func TestTableKeepsTheSourceContract(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	informertest.Run(t, func(t *testing.T) informertest.Subject[site] {
		db := newSites(t, server, sites)
		s := tabletest.Subject(t, db, sitesIn(t, db, sites))
		s.Expire = func() error {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), `DELETE FROM setpoint_sites`)
			return err
		}
		s.Objects = 2*1000 + 100 // three pages
		saved := backup(t, db)
		s.Restart = func() error { saved.restore(t, db); return nil }
		return s
	})
}

// saved is a backup of the tables.
type saved struct{ next int }

var savedTables = []string{"sites", "setpoint_sites", "setpoint_sites_gaps"}

func backup(t testing.TB, db *sql.DB) (s saved) {
	t.Helper()
	for _, table := range savedTables {
		tabletest.Do(t, db, `CREATE TABLE saved_`+table+` AS SELECT * FROM `+table)
	}
	require.NoError(t, db.QueryRow(`SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'setpoint_sites'`).Scan(&s.next))
	return s
}

// restore writes the backup, as a server does that begins with the files of the backup.
func (s saved) restore(t testing.TB, db *sql.DB) {
	t.Helper()
	require.NoError(t, tabletest.InTx(context.WithoutCancel(t.Context()), db, func(tx *sql.Tx) error {
		for _, table := range savedTables {
			tabletest.Do(t, tx, `DELETE FROM `+table)
			tabletest.Do(t, tx, `INSERT INTO `+table+` SELECT * FROM saved_`+table)
		}
		return nil
	}))
	tabletest.Do(t, db, fmt.Sprintf(`ALTER TABLE setpoint_sites AUTO_INCREMENT = %d`, s.next))
}

// agree waits until the cache has the rows of the table.
func agree(t testing.TB, db *sql.DB, table *mysql.Table[site], inf *informer.Informer[string, site]) {
	t.Helper()
	tabletest.Agree(t, db, inf, table.Wake)
}

// errBad makes a pool drop a connection.
var errBad = sqldriver.ErrBadConn

// An action of a foreign key deletes a row without a trigger. A comparison finds it.
func TestRowsThatVanishAreFound(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for _, c := range informertest.Cases[site]() {
		if !strings.Contains(c.Name, "vanished") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			cfg := sites
			cfg.Verify, cfg.Logger = 100*time.Millisecond, slog.New(slog.DiscardHandler)
			db := newDatabase(t, server)
			tabletest.CreateSitesOfParents(t, db)
			require.NoError(t, mysql.InstallTable(t.Context(), db, cfg))
			c.Run(t, tabletest.SubjectOfParents(t, db, sitesIn(t, db, cfg)))
		})
	}
}
