package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A table of tenants, which other programs write, becomes a cache that follows it. A reconcile of a leader that was replaced cannot write.
func ExampleNewTable() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)")
	check(err)
	defer func() { check(db.Close()) }()
	_, err = db.ExecContext(ctx, `CREATE TABLE tenants (name TEXT NOT NULL PRIMARY KEY, servers INTEGER NOT NULL, running INTEGER NOT NULL DEFAULT 0)`)
	check(err)

	// When you deploy:
	leases, err := sqllease.New(db, sqllease.Config{Dialect: sqllease.SQLite})
	check(err)
	check(leases.EnsureTable(ctx))
	cfg := sqlite.TableConfig{Table: "tenants"}
	check(sqlite.InstallTable(ctx, db, cfg))

	// In the program:
	type Tenant struct {
		Name             string
		Servers, Running int
	}
	table, err := sqlite.NewTable(ctx, db, func(row sqlite.Row) (t Tenant, err error) {
		err = row.Scan(&t.Name, &t.Servers, &t.Running)
		return t, err
	}, cfg)
	check(err)
	tenants, err := informer.New(table, func(t Tenant) string { return t.Name }, informer.Config{})
	check(err)
	var running sync.WaitGroup
	running.Go(func() { check(tenants.Run(ctx)) }) // ends with stop

	_, err = db.ExecContext(ctx, `INSERT INTO tenants (name, servers) VALUES ('acme', 3)`) // or any other program
	check(err)
	check(tenants.CatchUp(ctx))
	acme, _ := tenants.Get("acme")
	fmt.Println(acme.Name, acme.Servers, acme.Running)

	// In a reconcile of the leader with term 7:
	setRunning := func(ctx context.Context, n int) (v informer.Version, err error) {
		err = leases.Transact(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE tenants SET running = ? WHERE name = 'acme'`, n); err != nil {
				return err
			}
			v, err = table.VersionOf(ctx, tx) // so that the controller waits until its cache shows tx
			return err
		})
		return v, err
	}
	_, err = leases.Create(ctx, leaderelect.Entry{Key: "tenants", Term: 7}) // as an elector does
	check(err)
	leader, depose := leaderelect.Appoint(ctx, "tenants", 7)
	defer depose(nil)
	version, err := setRunning(leader, 3)
	check(err)
	check(tenants.WaitForVersion(ctx, version))
	acme, _ = tenants.Get("acme")
	fmt.Println(acme.Name, acme.Servers, acme.Running)

	_, err = db.ExecContext(ctx, `UPDATE leases SET term = 8`) // another process leads
	check(err)
	_, err = setRunning(leader, 0)
	fmt.Println(errors.Is(err, sqllease.ErrFenced))
	stop()
	running.Wait()
	// Output:
	// acme 3 0
	// acme 3 3
	// true
}

// Objects survive the process that wrote them.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	type App struct{ Replicas int }

	for range 2 { // as two processes, one after the other
		db, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Config{})
		check(err)
		apps, err := store.Open(db, "App", store.Config[App]{})
		check(err)
		app, err := apps.Create(ctx, store.Object[App]{Key: "shop", Value: App{Replicas: 3}})
		if err != nil {
			fmt.Println(err)
			app, err = apps.Get(ctx, "shop")
			check(err)
		}
		fmt.Println(app.Value.Replicas, "replicas, version", app.Version)
		check(db.Close())
	}
	// Output:
	// 3 replicas, version 1
	// store: create App "shop": object already exists
	// 3 replicas, version 1
}

// An object and a row of the user's own table are written together, or neither is.
func ExampleWithTx() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "state.db"), sqlite.Config{})
	check(err)
	defer func() { check(db.Close()) }()
	type Tenant struct{ Plan string }
	tenants, err := store.Open(db, "Tenant", store.Config[Tenant]{})
	check(err)
	_, err = db.DB().ExecContext(ctx, "CREATE TABLE invoices (tenant TEXT, cents INTEGER)")
	check(err)

	signUp := func(name string, cents int) error {
		tx, err := db.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // does nothing after Commit
		if _, err := tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?, ?)", name, cents); err != nil {
			return err
		}
		if _, err := tenants.Create(sqlite.WithTx(ctx, tx), store.Object[Tenant]{Key: name, Value: Tenant{Plan: "small"}}); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(signUp("acme", 500))
	fmt.Println(signUp("acme", 700))
	var invoices, cents int
	check(db.DB().QueryRowContext(ctx, "SELECT count(*), sum(cents) FROM invoices").Scan(&invoices, &cents))
	fmt.Println(invoices, "invoice over", cents, "cents")
	// Output:
	// <nil>
	// store: create Tenant "acme": object already exists
	// 1 invoice over 500 cents
}
