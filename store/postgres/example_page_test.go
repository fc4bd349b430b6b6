package postgres_test

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// The examples of docs/your-database.md that are not in its program.

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

// newPolled returns an informer for a table in any database. Each writer ends its transaction with
// UPDATE last_change SET number = number + 1.
func newPolled(db *sql.DB, list func(context.Context) ([]Customer, error)) (*informer.Informer[string, Customer], error) {
	name := func(c Customer) string { return c.Name }
	var number, listed informer.Version // a poll reads the number, and then the list; polls do not overlap
	unlessListed := func(ctx context.Context) ([]Customer, error) {
		if number == listed && listed > 0 {
			return nil, poll.ErrUnchanged
		}
		customers, err := list(ctx)
		if err == nil {
			listed = number
		}
		return customers, err
	}
	source, err := poll.New(unlessListed, name, poll.Config[Customer]{
		Version: func(ctx context.Context) (_ informer.Version, err error) {
			err = db.QueryRowContext(ctx, "SELECT number FROM last_change").Scan(&number)
			return number, err
		},
	})
	if err != nil {
		return nil, err
	}
	return informer.New(source, name, informer.Config{Name: "customers"})
}

// newHeld returns a controller that reconciles a customer again only when the cache shows the last reconcile's write.
// write returns the number of its change.
func newHeld(
	customers *informer.Informer[string, Customer], write func(ctx context.Context, name string) (number uint64, err error),
) (*controller.Controller[string], error) {
	wrote := expectations.NewVersions(expectations.Config[string]{})
	customers.OnVersion(func(v informer.Version) { wrote.VersionObserved(uint64(v)) })
	reconcile := func(ctx context.Context, name string) (controller.Result, error) {
		number, err := write(ctx, name)
		if err == nil {
			wrote.ExpectVersion(name, number)
		}
		return controller.Result{}, err
	}
	return controller.New("customers", reconcile,
		controller.Config[string]{Expectations: []controller.Expectations[string]{wrote}}, controller.For(customers))
}

// newHeldByValue returns a controller that reconciles a customer again only when the cache shows another state than before.
func newHeldByValue(
	customers *informer.Informer[string, Customer], write func(ctx context.Context, c Customer) (changed bool, err error),
) (*controller.Controller[string], error) {
	wrote := expectations.NewValues(expectations.Config[string]{TTL: time.Minute}) // longer than a few polls
	customers.OnVersion(func(informer.Version) { wrote.ValuesObserved() })
	reconcile := func(ctx context.Context, name string) (controller.Result, error) {
		read, _ := customers.Get(name)
		changed, err := write(ctx, read)
		if changed {
			wrote.ExpectValue(name, func() bool {
				now, _ := customers.Get(name)
				return now != read
			})
		}
		return controller.Result{}, err
	}
	return controller.New("customers", reconcile,
		controller.Config[string]{Expectations: []controller.Expectations[string]{wrote}}, controller.For(customers))
}

// A database without commit-ordered numbers has a counter of its own.
func ExampleQuery() { _, _, _ = newPolled, newHeld, newHeldByValue }
