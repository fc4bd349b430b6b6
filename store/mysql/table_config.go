package mysql

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// TableConfig names a table, and says how its changes are recorded. Only Table is required.
type TableConfig struct {
	// Table is the name of the table, without quotes. It is in the default database of the pool.
	Table string

	// Key names the columns that identify a row, in any order. They must have a unique index of their own, of whole values. A row in which one
	// of them is null is left out, as if it did not exist. Defaults to the primary key.
	Key []string

	// Columns names the columns that the program reads, in the order in which scan receives them. They include the Key. Defaults to the
	// columns that the table has when NewTable is called.
	Columns []string

	// Log is the name of the table that has the log, in the same database. Its name with _gaps appended is another table. Each table has its
	// own Log. It must not have more than 57 characters. Defaults to setpoint_ and the name of the table.
	Log string

	// History is the number of changes of the table that the log keeps for watches that resume. The log may hold more for a while: the
	// watches trim it once a minute. Defaults to 100,000.
	History int

	// Poll is how often a watch looks for changes. It sees those of transactions for which [Table.VersionOf] or [Table.Wake] was called
	// sooner. Defaults to 20 ms.
	Poll time.Duration

	// Verify is how often a watch compares the table with the rows that it has reported, because the triggers do not see some changes: see
	// [InstallTable]. The server then sends the Columns of all rows. Defaults to 5 min.
	Verify time.Duration

	// Logger receives warnings: if the table has changed without its triggers, if a change was committed late, and if a watch may not write
	// the log. Defaults to slog.Default.
	Logger *slog.Logger

	_ [0]func()
}

func (c TableConfig) withDefaults() TableConfig {
	c.Log = cmp.Or(c.Log, "setpoint_"+c.Table)
	c.History = cmp.Or(c.History, 100_000)
	c.Poll = cmp.Or(c.Poll, 20*time.Millisecond)
	c.Verify = cmp.Or(c.Verify, 5*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Key, c.Columns = slices.Clone(c.Key), slices.Clone(c.Columns)
	return c
}

// named is what c names of the table.
func (c TableConfig) named() usertable.Named {
	return usertable.Named{Table: c.Table, Key: c.Key, Columns: c.Columns}
}

func (c TableConfig) validate() error {
	errs := append(c.named().Problems(), usertable.ProblemsOfName("Log", c.Log, usertable.MaxName-len(longestSuffix))...)
	if strings.EqualFold(c.Log, c.Table) || strings.EqualFold(c.Log+gapsSuffix, c.Table) {
		errs = append(errs, fmt.Errorf("TableConfig.Log is %q, which is the Table", c.Log))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.Poll is %v, must not be negative", c.Poll))
	}
	if c.Verify < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.Verify is %v, must not be negative", c.Verify))
	}
	return problems.Join(errs...)
}
