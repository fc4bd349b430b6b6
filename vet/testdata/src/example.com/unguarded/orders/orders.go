// Package orders does not know whether its controller is elected.
package orders

import (
	"context"
	"database/sql"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// New returns a controller that writes without a guard.
func New(db *sql.DB) (*controller.Controller[string], error) {
	return controller.New("orders", func(ctx context.Context, key string) (controller.Result, error) {
		_, err := db.ExecContext(ctx, "UPDATE orders SET done = true WHERE key = $1", key)
		return controller.Result{}, err
	}, controller.Config[string]{})
}

// Guarded returns one that writes with a guard.
func Guarded(leases *sqllease.Store) (*controller.Controller[string], error) {
	return controller.New("orders", func(ctx context.Context, key string) (controller.Result, error) {
		return controller.Result{}, leases.Transact(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE orders SET done = true WHERE key = $1", key)
			return err
		})
	}, controller.Config[string]{})
}
