package mysql_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
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
