package proof

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns a controller that keeps no promised work in memory.
func NewRight(orders store.Store[Order], invoices store.Store[Invoice]) (*controller.Controller[string], error) {
	cached, err := informer.New(orders, store.Key, informer.Config{Name: "orders"})
	if err != nil {
		return nil, err
	}
	return controller.New("orders", func(ctx context.Context, key string) (controller.Result, error) {
		order, ok := cached.Get(key)
		if !ok || order.Value.Billed {
			return controller.Result{}, nil
		}
		invoice := store.Object[Invoice]{Key: key, Value: Invoice{Item: order.Value.Item}}
		if _, err := invoices.Create(ctx, invoice); err != nil && !errors.Is(err, store.ErrExists) {
			return controller.Result{}, err
		}
		order.Value.Billed = true // last: now it is true
		_, err := orders.UpdateStatus(ctx, order)
		return controller.Result{}, err
	}, controller.Config[string]{
		Timeout:     30 * time.Second, // ends the context of a reconcile that hangs
		StuckAfter:  5 * time.Minute,  // for one that ignores its context
		SilentAfter: 15 * time.Minute, // for a dead watch; longer than an outage of the store
	}, controller.For(cached))
}

// Probes returns a handler for the probes of the platform.
func Probes(m *manager.Manager) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", probe(m.Check))  // an error means that only a restart helps
	mux.HandleFunc("/readyz", probe(m.Ready)) // an error means not yet, or no longer
	return mux
}

func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}
