// Command stores is the program webapp with databases: copies of it share their objects, with the status of each, and
// their lease. When the copy that leads is killed another goes on from there.
//
//	go run ./examples/webapp/stores -store sqlite:webapp.db                                in three terminals
//	go run ./examples/webapp/stores -store sqlite:webapp.db -status                        the tables of the copy that leads
//	go run ./examples/webapp/stores -store postgres://postgres@localhost/postgres -demo    as with any -store
//
// The copies run on one machine, with the same -manifests, -state and -store: processes are of a machine, and stay in the
// state directory.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/examples/webapp/orchestrator"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func main() {
	os.Exit(orchestrator.Main(os.Args[1:], os.Stdout, os.Stderr, openers()))
}

// openers returns the databases, by what an address of each begins with.
func openers() map[string]orchestrator.Opener {
	return map[string]orchestrator.Opener{
		"postgres": openPostgres,
		"sqlite":   openSQLite,
	}
}

// openSQLite opens sqlite:FILE.
func openSQLite(ctx context.Context, address, name string) (backend.Backend, func(), error) {
	db, err := sqlite.Open(ctx, strings.TrimPrefix(address, "sqlite:"), sqlite.Config{TablePrefix: name + "_"})
	if err != nil {
		return nil, nil, err
	}
	return db, func() { _ = db.Close() }, nil // everything that was acknowledged is on disk
}

// openPostgres opens postgres://USER:PASSWORD@HOST:PORT/DATABASE.
func openPostgres(ctx context.Context, address, name string) (backend.Backend, func(), error) {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	cfg := postgres.Config{Schema: name}
	if err := postgres.Migrate(ctx, pool, cfg); err != nil {
		pool.Close()
		return nil, nil, err
	}
	db, err := postgres.Open(ctx, pool, cfg)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return db, pool.Close, nil
}
