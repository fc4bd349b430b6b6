// Command yourtable scales the servers of each tenant to the number in your own table of MariaDB or MySQL. Start as many copies as you like: one
// copy leads, and the others stand by to take over. See the README.md of store/mysql.
//
//	yourtable -install 'root@tcp(localhost:3306)/shop'   # once, when you deploy
//	yourtable 'root@tcp(localhost:3306)/shop'
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

	driver "github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/mysql"
)

// Tenant is a row of the table tenants: the columns that this program reads.
type Tenant struct {
	Name    string
	Servers int // desired; your other programs write it
	Running int // observed; only this program writes it
}

// scan reads a row of these columns.
func scan(row mysql.Row) (t Tenant, err error) {
	err = row.Scan(&t.Name, &t.Servers, &t.Running)
	return t, err
}

// tenants names the table and the columns of Tenant. The primary key is the key.
func tenants() mysql.TableConfig {
	return mysql.TableConfig{Table: "tenants", Columns: []string{"name", "servers", "running"}}
}

// install creates the change log, the triggers that write it, and the lease table. It is safe to call again.
func install(ctx context.Context, db *sql.DB, leases *sqllease.Store) error {
	if err := mysql.InstallTable(ctx, db, tenants()); err != nil {
		return err
	}
	return leases.EnsureTable(ctx)
}

// run reconciles all tenants while this copy leads, until ctx ends.
func run(ctx context.Context, db *sql.DB, leases *sqllease.Store, lease time.Duration) error {
	table, err := mysql.NewTable(ctx, db, scan, tenants())
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
		return controller.Result{}, setRunning(ctx, db, leases, table, t)
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
func setRunning(ctx context.Context, db *sql.DB, leases *sqllease.Store, table *mysql.Table[Tenant], t Tenant) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()                           // does nothing after Commit
	if err := leases.Guard(ctx, tx); err != nil { // another copy leads: write nothing
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE tenants SET running = ? WHERE name = ?", t.Servers, t.Name); err != nil {
		return err
	}
	if _, err := table.VersionOf(ctx, tx); err != nil { // reconcile the tenant again only when cached shows tx
		return err
	}
	return tx.Commit()
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
func open(ctx context.Context, source string, installs bool, lease time.Duration) (err error) {
	db, err := connect(source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	locks, err := connect(source) // a separate pool, so that renewals never wait for the work
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	leases, err := sqllease.New(locks, sqllease.Config{Dialect: sqllease.MySQL})
	if err != nil {
		return err
	}
	if installs {
		return install(ctx, db, leases)
	}
	return run(ctx, db, leases, lease)
}

// connect returns a pool of connections that waits neither for a lock nor for a dead server for long.
func connect(source string) (*sql.DB, error) {
	cfg, err := driver.ParseDSN(source)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true // otherwise each statement takes two round trips
	cfg.Timeout = 5 * time.Second
	cfg.Params = map[string]string{"innodb_lock_wait_timeout": "2"}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetConnMaxIdleTime(time.Minute) // less than the wait_timeout of the server
	return db, nil
}
