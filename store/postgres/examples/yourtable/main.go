// Command yourtable scales the servers of each tenant to the number in your own table. Start as many copies as you like:
// one copy leads, and the others stand by to take over. See the README.md of store/postgres.
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
	_ "github.com/jackc/pgx/v5/stdlib" // the driver for the leases

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// Tenant is a row of the table tenants: the columns that this program reads.
type Tenant struct {
	Name    string
	Servers int // desired; your other programs write it
	Running int // observed; only this program writes it
}

// tenants names the table and the columns of Tenant. The primary key is the key.
func tenants() postgres.TableConfig {
	return postgres.TableConfig{Table: "tenants", Columns: []string{"name", "servers", "running"}}
}

// install creates the change log, the triggers that write it, and the lease table. It is safe to call again.
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
			return controller.Result{}, err // retried after a backoff
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

// setRunning writes a tenant's status if this copy still leads.
func setRunning(ctx context.Context, pool *pgxpool.Pool, leases *sqllease.Store, table *postgres.Table[Tenant], t Tenant) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := postgres.Guard(ctx, tx, leases); err != nil {
			return err // another copy leads: write nothing
		}
		if _, err := table.VersionOf(ctx, tx); err != nil { // reconcile the tenant again only when cached shows tx
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE tenants SET running = $2 WHERE name = $1", t.Name, t.Servers)
		return err
	})
}

// scale stands in for a call to your API that starts missing servers and stops surplus ones.
func scale(_ context.Context, t Tenant) error {
	_, err := fmt.Printf("%s: from %d servers to %d\n", t.Name, t.Running, t.Servers)
	return err
}

// remove stands in for a call to your API that stops all servers of a deleted tenant.
func remove(_ context.Context, name string) error {
	_, err := fmt.Printf("%s: gone\n", name)
	return err
}

func main() {
	log.SetFlags(0)
	installs := flag.Bool("install", false, "create what the program needs in the database, and exit")
	lease := flag.Duration("lease", 15*time.Second, "how long a killed copy stays the leader")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := open(ctx, flag.Arg(0), *installs, *lease); err != nil {
		log.Fatal(err)
	}
}

// open connects to the database and then installs or runs.
func open(ctx context.Context, url string, installs bool, lease time.Duration) (err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	db, err := sql.Open("pgx", url) // a separate pool, so that renewals never wait for the work
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
