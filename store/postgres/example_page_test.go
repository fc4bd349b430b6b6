package postgres_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// The examples of README.md that are not in its program.

type (
	Customer struct {
		Name    string
		Servers int
	}

	Invoice struct {
		ID       int64
		Customer string
	}
)

// reportDelay logs a transaction that has delayed the caches for more than a minute.
func reportDelay(ctx context.Context, table *postgres.Table[Customer]) error {
	d, err := table.Delay(ctx)
	if err == nil && d.Behind > 0 && time.Since(d.Since) > time.Minute {
		slog.Warn("a transaction delays all caches", "application", d.Application, "state", d.State, "since", d.Since, "pid", d.PID)
	}
	return err
}

// A transaction that stays open delays the watches of all tables.
func ExampleTable_Delay() { _ = reportDelay }

// newController reconciles a customer when it or one of its invoices changes.
func newController(
	reconcile func(context.Context, string) (controller.Result, error),
	customers *informer.Informer[string, Customer], invoices *informer.Informer[int64, Invoice],
) (*controller.Controller[string], error) {
	return controller.New("customers", reconcile, controller.Config[string]{},
		controller.For(customers),
		controller.Watches(invoices, func(_ context.Context, i Invoice) ([]string, error) { return []string{i.Customer}, nil }),
	)
}

// One transaction that writes two tables has one version in the caches of both.
func ExampleTable_VersionOf() { _ = newController }

// newCustomers returns an informer for a table without triggers.
func newCustomers(ctx context.Context, pool *pgxpool.Pool) (*informer.Informer[string, Customer], error) {
	name := func(c Customer) string { return c.Name }
	query, err := postgres.NewQuery(ctx, pool, "SELECT name, servers FROM customers", pgx.RowToStructByName[Customer], name,
		poll.Config[Customer]{Interval: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	return informer.New(query, name, informer.Config{Name: "customers"})
}

// A role that may only SELECT makes a source of a query.
func ExampleNewQuery() { _ = newCustomers }
