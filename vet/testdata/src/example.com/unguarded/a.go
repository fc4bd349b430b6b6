package unguarded

import (
	"context"
	"database/sql"

	"example.com/unguarded/orders"
	"github.com/jackc/pgx/v5"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func wrong(db *sql.DB, conn *pgx.Conn, election *leaderelect.Elector) {
	c, _ := controller.New("orders", func(ctx context.Context, key string) (controller.Result, error) {
		if _, err := db.ExecContext(ctx, "UPDATE orders SET done = true"); err != nil { // want `DB.ExecContext writes without a check of the term, so a former leader that was suspended still writes: .*chapter 8`
			return controller.Result{}, err
		}
		if err := conn.QueryRow(ctx, "INSERT INTO orders VALUES (1) RETURNING id").Scan(); err != nil { // want `Conn.QueryRow writes`
			return controller.Result{}, err
		}
		return controller.Result{}, in(ctx, conn)
	}, controller.Config[string]{})
	made, _ := orders.New(db) // want `the controller of orders.New \(DB.ExecContext at orders.go:15\) writes without`
	manager.New(manager.Config{Election: election}, c, made)
}

func in(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "DELETE FROM orders") // want `Tx.Exec writes`
	return err
}

func right(db *sql.DB, conn *pgx.Conn, leases *sqllease.Store) {
	controller.New("orders", func(ctx context.Context, key string) (controller.Result, error) {
		err := leases.Transact(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE orders SET done = true"); err != nil {
				return err
			}
			return ship(ctx, tx)
		})
		if err != nil {
			return controller.Result{}, err
		}
		if _, err := db.ExecContext(ctx, "SELECT 1"); err != nil {
			return controller.Result{}, err
		}
		return controller.Result{}, guarded(ctx, conn, leases)
	}, controller.Config[string]{})
	orders.Guarded(leases)
	db.Exec("CREATE TABLE orders ()") // not in a reconcile
}

func ship(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE orders SET shipped = true")
	return err
}

func guarded(ctx context.Context, conn *pgx.Conn, leases *sqllease.Store) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if err := postgres.Guard(ctx, tx, leases); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM orders"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// world has a function that it does not make.
type world struct {
	row func(ctx context.Context, key string) error
}

type database struct{ db *sql.DB }

func (d *database) read(ctx context.Context, key string) error {
	_, err := d.db.ExecContext(ctx, "UPDATE orders SET seen = true") // want `DB.ExecContext writes`
	return err
}

type tenants struct {
	row func(ctx context.Context, key string) error
}

func (t *tenants) reconcile(ctx context.Context, key string) (controller.Result, error) {
	return controller.Result{}, t.row(ctx, key)
}

func values(d *database) {
	w := world{row: d.read}
	t := &tenants{row: w.row}
	controller.New("tenants", t.reconcile, controller.Config[string]{})
}
