package proof

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns a controller that collects invoices, and the batch that writes them.
func NewWrong(orders store.Store[Order], invoices store.Store[Invoice]) (*controller.Controller[string], *Batch, error) {
	cached, err := informer.New(orders, store.Key, informer.Config{Name: "orders"})
	if err != nil {
		return nil, nil, err
	}
	batch := &Batch{to: invoices}
	c, err := controller.New("orders", func(ctx context.Context, key string) (controller.Result, error) {
		order, ok := cached.Get(key)
		if !ok || order.Value.Billed {
			return controller.Result{}, nil
		}
		batch.Add(store.Object[Invoice]{Key: key, Value: Invoice{Item: order.Value.Item}})
		order.Value.Billed = true
		_, err := orders.UpdateStatus(ctx, order)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
	return c, batch, err
}

// Batch keeps invoices in memory, and writes them once a minute.
type Batch struct {
	to store.Store[Invoice]

	mu sync.Mutex

	// mu guards the following.

	pending []store.Object[Invoice]
}

// Name makes a Batch a part of a manager.
func (b *Batch) Name() string { return "batch" }

// Add adds an invoice.
func (b *Batch) Add(invoice store.Object[Invoice]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = append(b.pending, invoice)
}

// Run writes the invoices until ctx ends.
func (b *Batch) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.flush(ctx)
		case <-ctx.Done():
			b.flush(context.WithoutCancel(ctx)) // a graceful stop loses nothing
			return nil
		}
	}
}

// flush writes what is pending, and keeps what it could not write.
func (b *Batch) flush(ctx context.Context) {
	b.mu.Lock()
	pending := b.pending
	b.pending = nil
	b.mu.Unlock()
	for _, invoice := range pending {
		if _, err := b.to.Create(ctx, invoice); err != nil && !errors.Is(err, store.ErrExists) {
			b.Add(invoice)
		}
	}
}

// WrongProbes returns a handler for the probes of the platform.
func WrongProbes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK) // the process runs, because it answers
	})
}
