// Command yourtable scales the servers of each tenant to the number in your own SQLite table. It needs no server. Start as many copies as you
// like: one copy leads, and the others stand by to take over. See docs/your-data.md.
//
//	yourtable -install shop.db                                      # once, when you deploy, and after each migration
//	yourtable shop.db
//	yourtable -sql "UPDATE tenants SET servers = 5" shop.db         # as any other program may write, such as the shell sqlite3
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // or another driver for SQLite: use only one in a program

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// Tenant is a row of the table tenants: the columns that this program reads.
type Tenant struct {
	Name    string
	Servers int // desired; your other programs write it
	Running int // observed; only this program writes it
}

// scan reads a row of these columns.
func scan(row sqlite.Row) (t Tenant, err error) {
	err = row.Scan(&t.Name, &t.Servers, &t.Running)
	return t, err
}

// tenants names the table and the columns of Tenant. The primary key is the key.
func tenants() sqlite.TableConfig {
	return sqlite.TableConfig{Table: "tenants", Columns: []string{"name", "servers", "running"}}
}

// install creates the table, unless you have one, the change log, the triggers that write it, and the lease table. It is safe to call again.
func install(ctx context.Context, db *sql.DB, leases *sqllease.Store) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS tenants (
		name    TEXT    NOT NULL PRIMARY KEY,
		email   TEXT,
		servers INTEGER NOT NULL,
		running INTEGER NOT NULL DEFAULT 0
	)`)
	if err != nil {
		return err
	}
	if err := sqlite.InstallTable(ctx, db, tenants()); err != nil {
		return err
	}
	return leases.EnsureTable(ctx)
}

// run reconciles all tenants while this copy leads, until ctx ends.
func run(ctx context.Context, db *sql.DB, leases *sqllease.Store, lease time.Duration) error {
	table, err := sqlite.NewTable(ctx, db, scan, tenants())
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
		return controller.Result{}, setRunning(ctx, leases, table, t)
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

// setRunning writes a tenant's status if this copy still leads. If another copy leads, Transact writes nothing.
func setRunning(ctx context.Context, leases *sqllease.Store, table *sqlite.Table[Tenant], t Tenant) error {
	return leases.Transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE tenants SET running = ? WHERE name = ?", t.Servers, t.Name); err != nil {
			return err
		}
		_, err := table.VersionOf(ctx, tx) // after the last write: reconcile the tenant again only when cached shows tx
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
	_, err := fmt.Printf("%s: deleted\n", name)
	return err
}

func main() {
	log.SetFlags(0)
	installs := flag.Bool("install", false, "create what the program needs in the file, and exit")
	statement := flag.String("sql", "", "run a statement of SQL, and exit")
	lease := flag.Duration("lease", 15*time.Second, "how long a killed copy stays the leader")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := open(ctx, flag.Arg(0), *installs, *statement, *lease); err != nil {
		log.Fatal(err)
	}
}

// open opens the file and then installs, runs a statement, or runs.
func open(ctx context.Context, path string, installs bool, statement string, lease time.Duration) (err error) {
	if path == "" {
		return errors.New("yourtable: the name of a file is missing")
	}
	// In WAL mode, readers and writers do not wait for each other. A transaction begins with the lock of the writer.
	options := url.Values{"_pragma": {"journal_mode(WAL)", "busy_timeout(2000)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options.Encode())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	leases, err := sqllease.New(db, sqllease.Config{Dialect: sqllease.SQLite})
	if err != nil {
		return err
	}
	switch {
	case installs:
		return install(ctx, db, leases)
	case statement != "":
		_, err := db.ExecContext(ctx, statement)
		return err
	}
	return run(ctx, db, leases, lease)
}
