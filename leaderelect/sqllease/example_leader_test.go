package sqllease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// One process at a time ships orders. The database refuses its transactions after another process has taken over.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	db := sql.OpenDB(&server{rows: make(map[string][]driver.Value)}) // sql.Open("pgx", "postgres://...")
	defer db.Close()
	fmt.Println(shipOrders(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE orders SET shipped = true WHERE id = $1", "17")
		fmt.Println("shipped:", err)
		cancel() // one order is enough here
		return err
	}))
	// Output:
	// shipped: <nil>
	// <nil>
}

func shipOrders(ctx context.Context, db *sql.DB, ship func(context.Context, *sql.Tx) error) error {
	leases, err := sqllease.New(db, sqllease.Config{})
	if err != nil {
		return err
	}
	if err := leases.EnsureTable(ctx); err != nil {
		return err
	}
	elector, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: "orders", ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			return leases.Transact(ctx, func(tx *sql.Tx) error { return ship(ctx, tx) })
		},
	})
	if err != nil {
		return err
	}
	return elector.Run(ctx) // until ctx ends; leads again after a loss
}
