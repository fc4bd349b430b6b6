package binlog_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Tenant is a row of the table tenants.
type Tenant struct {
	Name             string
	Servers, Running int
}

// scanTenant reads a row of the columns name, servers, and running.
func scanTenant(row mysql.Row) (t Tenant, err error) {
	err = row.Scan(&t.Name, &t.Servers, &t.Running)
	return t, err
}

// followTenants returns a source of the table. dsn is that of db. Its user may read the binary log.
func followTenants(ctx context.Context, db *sql.DB, dsn string) (*binlog.Table[Tenant], error) {
	return binlog.NewTable(ctx, db, scanTenant, binlog.TableConfig{Table: "tenants", Columns: []string{"name", "servers", "running"}, DSN: dsn})
}

// setRunning writes a tenant's status if this copy still leads.
func setRunning(ctx context.Context, leases *sqllease.Store, table *binlog.Table[Tenant], t Tenant) error {
	err := leases.Transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE tenants SET running = ? WHERE name = ?", t.Servers, t.Name)
		return err
	})
	if err == nil {
		_, err = table.CommittedVersion(ctx) // reconcile the tenant again only when the cache shows the transaction
	}
	return err
}

// A table of tenants, which other programs write, becomes a cache that follows it. Nothing is installed.
func ExampleNewTable() {
	ctx := context.Background()
	const dsn = "reconciler@tcp(localhost:3306)/shop?interpolateParams=true"
	db, err := sql.Open("mysql", dsn)
	check(err)
	defer func() { check(db.Close()) }()
	leases, err := sqllease.New(db, sqllease.Config{Dialect: sqllease.MySQL})
	check(err)
	table, err := followTenants(ctx, db, dsn)
	check(err)
	tenants, err := informer.New(table, func(t Tenant) string { return t.Name }, informer.Config{})
	check(err)
	_ = func(ctx context.Context, t Tenant) error { return setRunning(ctx, leases, table, t) } // in a reconcile
	check(tenants.Run(ctx))
}
