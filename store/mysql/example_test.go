package mysql_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/mysql"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A table of tenants, which other programs write, becomes a cache that follows it. A reconcile of a leader that was replaced cannot write.
func ExampleNewTable() {
	ctx := context.Background()
	db, err := sql.Open("mysql", "root@tcp(localhost:3306)/shop?interpolateParams=true")
	check(err)
	defer func() { check(db.Close()) }()

	// When you deploy:
	leases, err := sqllease.New(db, sqllease.Config{Dialect: sqllease.MySQL})
	check(err)
	check(leases.EnsureTable(ctx))
	cfg := mysql.TableConfig{Table: "tenants"}
	check(mysql.InstallTable(ctx, db, cfg))

	// In the program:
	type Tenant struct {
		Name             string
		Servers, Running int
	}
	table, err := mysql.NewTable(ctx, db, func(row mysql.Row) (t Tenant, err error) {
		err = row.Scan(&t.Name, &t.Servers, &t.Running)
		return t, err
	}, cfg)
	check(err)
	tenants, err := informer.New(table, func(t Tenant) string { return t.Name }, informer.Config{})
	check(err)

	// In a reconcile, under the context of the leadership:
	setRunning := func(ctx context.Context, t Tenant) error {
		return leases.Transact(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE tenants SET running = ? WHERE name = ?`, t.Servers, t.Name); err != nil {
				return err
			}
			_, err := table.VersionOf(ctx, tx) // so that the controller waits until its cache shows tx
			return err
		})
	}
	_ = setRunning
	check(tenants.Run(ctx))
}

type Site struct{ Plan string }

// A program creates its tables when it is deployed, and opens them when it starts.
func ExampleOpen() {
	run := func(ctx context.Context, name string) error {
		db, err := sql.Open("mysql", name) // such as shop@tcp(localhost:3306)/shop
		if err != nil {
			return err
		}
		defer db.Close()
		if err := mysql.Migrate(ctx, db, mysql.Config{}); err != nil {
			return err
		}
		objects, err := mysql.Open(ctx, db, mysql.Config{})
		if err != nil {
			return err
		}
		sites, err := store.Open(objects, "Site", store.Config[Site]{})
		if err != nil {
			return err
		}
		_, err = sites.Create(ctx, store.Object[Site]{Key: "acme", Value: Site{Plan: "small"}})
		return err
	}
	_ = run
}

// An object and a row of your own table are written together, by the leader, or neither is.
func ExampleWithTx() {
	signUp := func(ctx context.Context, leases *sqllease.Store, sites store.Store[Site], name string, cents int) error {
		return leases.Transact(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?, ?)", name, cents); err != nil {
				return err
			}
			_, err := sites.Create(mysql.WithTx(ctx, tx), store.Object[Site]{Key: name, Value: Site{Plan: "small"}})
			return err
		})
	}
	_ = signUp
}
