package deletion

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns a controller that writes the finalizer before it makes the entry. It removes the finalizer when the entry is
// gone, no matter what removed the entry.
func NewRight(sites store.Store[Site], dns DNS) (*controller.Controller[string], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	entry := owner.Finalizer[Site]{
		Name: "example.com/dns",
		Apply: func(ctx context.Context, site store.Object[Site]) error {
			return dns.Put(ctx, site.Key, site.Value.Address)
		},
		Cleanup: func(ctx context.Context, site store.Object[Site]) error {
			if err := dns.Remove(ctx, site.Key); !errors.Is(err, ErrNoEntry) {
				return err
			}
			return nil // an earlier attempt or a person has removed it
		},
	}
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_, _, err := entry.Reconcile(ctx, sites, key)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}
