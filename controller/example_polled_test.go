package controller_test

import (
	"context"
	"database/sql"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
)

// These examples poll a table in any database, in which each writer ends its transaction with UPDATE last_change SET number = number + 1.

type Customer struct {
	Name    string
	Servers int
}

// newPolled returns an informer for the table. While the number stays the same, it lists nothing.
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

// A counter that every writer increments as its last statement orders commits, and saves lists.
func Example_counter() { _ = newPolled }

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

// A controller cannot tell by itself when your code has written to a polled source. Record each write as an expectation.
func Example_ownWrites() { _ = newHeld }

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

// Without such a number, ask the cache itself whether it shows your write: best for another state than the one that you have read, since somebody
// else may overwrite your value before the next poll.
func Example_ownWritesByValue() { _ = newHeldByValue }
