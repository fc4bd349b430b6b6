package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// database has the table that people write and, next to it, the objects and the lease of this program. The rest of the program
// does not know which database it is.
type database struct {
	backend.Backend                           // the objects
	sql             *sql.DB                   // the table
	rows            informer.ListWatcher[Row] // the rows of the table
	close           func()
}

// createTable creates the table that people write, in either database.
const createTable = `CREATE TABLE IF NOT EXISTS tenants (
	customer text NOT NULL,
	name     text NOT NULL,
	plan     text NOT NULL,
	region   text NOT NULL DEFAULT 'eu',
	PRIMARY KEY (customer, name))`

// openDatabase opens postgres://... or sqlite:FILE. If install is set, it also creates everything that is missing.
func openDatabase(ctx context.Context, address string, installs bool) (*database, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return openSQLite(ctx, path, installs)
	}
	if strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://") {
		return openPostgres(ctx, address, installs)
	}
	return nil, fmt.Errorf("tenants: open -store %q: it begins with none of sqlite:, postgres://", address)
}

// openPostgres follows the table by a log that triggers write: see store/postgres/README.md.
func openPostgres(ctx context.Context, address string, installs bool) (_ *database, err error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, err
	}
	db := &database{sql: stdlib.OpenDBFromPool(pool), close: pool.Close}
	defer func() {
		if err != nil {
			pool.Close()
		}
	}()
	table := postgres.TableConfig{Table: "tenants", Columns: []string{"customer", "name", "plan", "region"}}
	if installs {
		if _, err := pool.Exec(ctx, createTable); err != nil {
			return nil, err
		}
		if err := errors.Join(postgres.InstallTable(ctx, pool, table), postgres.Migrate(ctx, pool, postgres.Config{})); err != nil {
			return nil, err
		}
	}
	if db.rows, err = postgres.NewTable(ctx, pool, pgx.RowToStructByName[Row], table); err != nil {
		return nil, err
	}
	db.Backend, err = postgres.Open(ctx, pool, postgres.Config{})
	return db, err
}

// openSQLite follows the table by polling it. The table is small, and in a local file.
func openSQLite(ctx context.Context, path string, installs bool) (*database, error) {
	file, err := sqlite.Open(ctx, path, sqlite.Config{Existing: !installs})
	if err != nil {
		return nil, err
	}
	db := &database{Backend: file, sql: file.DB(), close: func() { _ = file.Close() }}
	if installs {
		if _, err := db.sql.ExecContext(ctx, createTable); err != nil {
			db.close()
			return nil, err
		}
	}
	db.rows, err = poll.New(db.list, Row.Key, poll.Config[Row]{Interval: 200 * time.Millisecond})
	return db, err
}

// list returns all rows.
func (db *database) list(ctx context.Context) (rows []Row, err error) {
	found, err := db.sql.QueryContext(ctx, "SELECT customer, name, plan, region FROM tenants ORDER BY customer, name")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var r Row
		if err := found.Scan(&r.Customer, &r.Name, &r.Plan, &r.Region); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// row returns the current row of a key.
func (db *database) row(ctx context.Context, key string) (r Row, found bool, err error) {
	customer, name, _ := strings.Cut(key, "/")
	const query = "SELECT customer, name, plan, region FROM tenants WHERE customer = $1 AND name = $2"
	err = db.sql.QueryRowContext(ctx, query, customer, name).Scan(&r.Customer, &r.Name, &r.Plan, &r.Region)
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, false, nil
	}
	return r, err == nil, err
}

// withDatabase calls a function with an open database.
func withDatabase(ctx context.Context, address string, installs bool, do func(*database) error) error {
	opening, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	db, err := openDatabase(opening, address, installs)
	if err != nil {
		return err
	}
	defer db.close()
	return do(db)
}
