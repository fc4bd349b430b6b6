package binlog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// TableConfig names a table, and the server whose binary log has its changes. Table and DSN are required.
type TableConfig struct {
	// Table is the name of the table, without quotes. It is in the default database of the pool.
	Table string

	// DSN is the data source name of the connections that read the binary log, as sql.Open takes it for the driver
	// github.com/go-sql-driver/mysql. It is that of the server of the pool. Its user needs the privileges REPLICATION SLAVE and
	// BINLOG MONITOR. The address, the user, the password, tls, and timeout count.
	DSN string

	// Key names the columns that identify a row, in any order. They must have a unique index of their own, of whole values. A row in which one
	// of them is null is left out, as if it did not exist. Defaults to the primary key.
	Key []string

	// Columns names the columns that the program reads, in the order in which scan receives them. They include the Key. Defaults to the
	// columns that the table has when NewTable is called.
	Columns []string

	// Verify is how often a watch compares the table with the rows that it has reported, because the binary log lacks some changes: see [Table].
	// The server then sends the Columns of all rows. Defaults to 5 min.
	Verify time.Duration

	// Logger receives warnings: if the table has changed without its binary log, and if the log has a statement instead of rows. Defaults to
	// slog.Default.
	Logger *slog.Logger

	_ [0]func()
}

func (c TableConfig) withDefaults() TableConfig {
	c.Verify = cmp.Or(c.Verify, 5*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Key, c.Columns = slices.Clone(c.Key), slices.Clone(c.Columns)
	return c
}

// named is what c names of the table.
func (c TableConfig) named() usertable.Named {
	return usertable.Named{Table: c.Table, Key: c.Key, Columns: c.Columns}
}

// keysTable is the name of a temporary table.
const keysTable = "setpoint_keys"

// validate returns the server of the DSN, unless a field is invalid.
func (c TableConfig) validate() (*driver.Config, error) {
	errs := c.named().Problems()
	if strings.EqualFold(c.Table, keysTable) {
		errs = append(errs, fmt.Errorf("TableConfig.Table is %q, which is the name of a temporary table", c.Table))
	}
	server := &driver.Config{}
	if c.DSN == "" {
		errs = append(errs, errors.New("TableConfig.DSN is empty"))
	} else if parsed, err := driver.ParseDSN(c.DSN); err != nil {
		errs = append(errs, fmt.Errorf("TableConfig.DSN: %w", err))
	} else {
		server = parsed
		if server.Net != "tcp" && server.Net != "unix" {
			errs = append(errs, fmt.Errorf("TableConfig.DSN has the network %q, must be tcp or unix", server.Net))
		}
		if server.AllowFallbackToPlaintext {
			errs = append(errs, errors.New("TableConfig.DSN has tls=preferred, must be true, false, skip-verify, or the name of a configuration"))
		}
	}
	if c.Verify < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.Verify is %v, must not be negative", c.Verify))
	}
	return server, problems.Join(errs...)
}
