package sqllease

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// Dialect is the SQL dialect of a database.
type Dialect int

// The dialects that a [Store] supports.
const (
	Postgres Dialect = iota // PostgreSQL 11 and newer, and what is compatible with it in FOR KEY SHARE and ON CONFLICT
	SQLite                  // SQLite 3.35 and newer
	MySQL                   // MariaDB 10.6 and newer, and MySQL 8.0 and newer, with InnoDB
)

var dialects = []Dialect{Postgres, SQLite, MySQL}

// String returns the name of d.
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case SQLite:
		return "SQLite"
	case MySQL:
		return "MySQL"
	default:
		return fmt.Sprintf("Dialect(%d)", int(d))
	}
}

// Config configures a [Store]. The zero value is ready for Postgres.
type Config struct {
	// Dialect is the SQL of the database. If it is that of another database, each call and EnsureTable return an error
	// that says so. Defaults to Postgres.
	Dialect Dialect

	// Table is the name of the table, with or without a schema and a dot before it: lower-case letters, digits, and '_'.
	// Defaults to "leases".
	Table string

	_ [0]func()
}

// withDefaults returns a copy of c with every default in place.
func (c Config) withDefaults() Config {
	c.Table = cmp.Or(c.Table, "leases")
	return c
}

// validate returns an error that names each field that is out of its bounds.
func (c Config) validate() error {
	var errs []error
	if !slices.Contains(dialects, c.Dialect) {
		errs = append(errs, fmt.Errorf("Config.Dialect is %v, must be Postgres, SQLite, or MySQL", c.Dialect))
	}
	if ok, _ := regexp.MatchString(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`, c.Table); !ok {
		errs = append(errs, fmt.Errorf("Config.Table is %q, must be lower-case letters, digits and '_', with or without a schema", c.Table))
	}
	return problems.Join(errs...)
}
