package finalizer

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
)

type Site struct{ Address string }

type dns interface {
	Put(ctx context.Context, name, address string) error
	Remove(ctx context.Context, name string) error
	Forget(name string)
}

func wrong(cached *store.Informer[Site], d dns, sites store.Store[Site]) {
	controller.New("a", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if ok {
			return controller.Result{}, d.Put(ctx, key, site.Value.Address)
		}
		return controller.Result{}, d.Remove(ctx, key) // want `dns.Remove cleans up after an object only if its deletion is seen, .*chapter 7`
	}, controller.Config[string]{}, controller.For(cached))
	controller.New("b", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if !ok {
			_, err := sites.Delete(ctx, key+"-copy") // want `Store.Delete cleans up`
			return controller.Result{}, err
		}
		return controller.Result{}, d.Put(ctx, key, site.Value.Address)
	}, controller.Config[string]{}, controller.For(cached).When(func(old, new store.Object[Site]) bool { return true }))
}

func right(cached, entries *store.Informer[Site], d dns) {
	controller.New("a", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if !ok {
			d.Forget(key) // in memory, which a restart clears
			return controller.Result{}, nil
		}
		if site.Value.Address == "" {
			return controller.Result{}, d.Remove(ctx, key) // the object is there
		}
		return controller.Result{}, d.Put(ctx, key, site.Value.Address)
	}, controller.Config[string]{}, controller.For(cached))
	controller.New("b", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if !ok {
			return controller.Result{}, d.Remove(ctx, key) // the entry is still listed after a restart
		}
		return controller.Result{}, d.Put(ctx, key, site.Value.Address)
	}, controller.Config[string]{}, controller.For(cached), controller.For(entries))
}
