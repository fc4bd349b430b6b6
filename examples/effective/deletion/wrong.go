package deletion

import (
	"context"
	"errors"
	"slices"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewForgetful returns a controller that removes the entry of a site when it sees that the site is gone.
func NewForgetful(sites store.Store[Site], dns DNS) (*controller.Controller[string], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if ok {
			return controller.Result{}, dns.Put(ctx, key, site.Value.Address)
		}
		if err := dns.Remove(ctx, key); !errors.Is(err, ErrNoEntry) {
			return controller.Result{}, err
		}
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(cached))
}

const cleanup = "example.com/dns"

// NewStuck returns a controller with a finalizer that it cannot always remove.
func NewStuck(sites store.Store[Site], dns DNS) (*controller.Controller[string], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, err := sites.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, nil
		} else if err != nil {
			return controller.Result{}, err
		}
		if site.Deleting.IsZero() {
			if !slices.Contains(site.Finalizers, cleanup) {
				site.Finalizers = append(site.Finalizers, cleanup)
				if _, err := sites.Update(ctx, site); err != nil {
					return controller.Result{}, err
				}
			}
			return controller.Result{}, dns.Put(ctx, key, site.Value.Address)
		}
		if err := dns.Remove(ctx, key); err != nil {
			return controller.Result{}, err
		}
		site.Finalizers = slices.DeleteFunc(site.Finalizers, func(f string) bool { return f == cleanup })
		_, err = sites.Update(ctx, site)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}
