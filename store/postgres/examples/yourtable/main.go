// Command yourtable keeps the servers of each tenant at the number that a table of yours wants. Start it as often as you like:
// one copy leads, the others follow and take over. See docs/your-database.md.
//
//	yourtable -install postgres://...   # once, when you deploy
//	yourtable postgres://...
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the leases

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// Tenant is a row of the table tenants, as far as this program reads it.
type Tenant struct {
	Name    string
	Servers int // how many somebody wants; your other programs write it
	Running int // how many there are; this program writes it
}

// tenants names the table, and the columns of Tenant. The key is the primary key.
func tenants() postgres.TableConfig {
	return postgres.TableConfig{Table: "tenants", Columns: []string{"name", "servers", "running"}}
}

// install creates the change log, the triggers that write it, and the table of the leases. It may be called again.
func install(ctx context.Context, pool *pgxpool.Pool, leases *sqllease.Store) error {
	if err := postgres.InstallTable(ctx, pool, tenants()); err != nil {
		return err
	}
	return leases.EnsureTable(ctx)
}

// run reconciles all tenants while this copy leads, until ctx ends.
func run(ctx context.Context, pool *pgxpool.Pool, leases *sqllease.Store, lease time.Duration) error {
	table, err := postgres.NewTable(ctx, pool, pgx.RowToStructByName[Tenant], tenants())
	if err != nil {
		return err
	}
	cached, err := informer.New(table, func(t Tenant) string { return t.Name }, informer.Config{Name: "tenants"})
	if err != nil {
		return err
	}
	reconcile := func(ctx context.Context, name string) (controller.Result, error) {
		t, ok := cached.Get(name)
		switch {
		case !ok:
			return controller.Result{}, remove(ctx, name)
		case t.Running == t.Servers:
			return controller.Result{}, nil
		}
		if err := scale(ctx, t); err != nil {
			return controller.Result{}, err // again after a backoff
		}
		return controller.Result{}, setRunning(ctx, pool, leases, table, t)
	}
	c, err := controller.New("tenants", reconcile, controller.Config[string]{Workers: 4}, controller.For(cached))
	if err != nil {
		return err
	}
	election := &leaderelect.Config{Store: leases, Key: "tenants", LeaseDuration: lease}
	m, err := manager.New(manager.Config{Election: election}, c)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// setRunning writes the status of a tenant, if this copy still leads.
func setRunning(ctx context.Context, pool *pgxpool.Pool, leases *sqllease.Store, table *postgres.Table[Tenant], t Tenant) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := postgres.Guard(ctx, tx, leases); err != nil {
			return err // another copy leads: nothing is written
		}
		if _, err := table.VersionOf(ctx, tx); err != nil { // the tenant is not reconciled again before cached shows tx
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE tenants SET running = $2 WHERE name = $1", t.Name, t.Servers)
		return err
	})
}

// scale stands for a call of your API: start what is missing, stop what is too much.
func scale(_ context.Context, t Tenant) error {
	_, err := fmt.Printf("%s: from %d servers to %d\n", t.Name, t.Running, t.Servers)
	return err
}

// remove stands for a call of your API: stop all servers of a tenant that is gone.
func remove(_ context.Context, name string) error {
	_, err := fmt.Printf("%s: gone\n", name)
	return err
}

func main() {
	log.SetFlags(0)
	installs := flag.Bool("install", false, "create what the program needs in the database, and end")
	lease := flag.Duration("lease", 15*time.Second, "how long a copy that was killed stays the leader")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := open(ctx, flag.Arg(0), *installs, *lease); err != nil {
		log.Fatal(err)
	}
}

// open connects to the database, and installs or runs.
func open(ctx context.Context, url string, installs bool, lease time.Duration) (err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	db, err := sql.Open("pgx", url) // a pool of its own, so that renewals never wait for the work
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	leases, err := sqllease.New(db, sqllease.Config{Table: "setpoint.leases"})
	if err != nil {
		return err
	}
	if installs {
		return install(ctx, pool, leases)
	}
	return run(ctx, pool, leases, lease)
}
