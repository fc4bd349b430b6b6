package synced

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns a janitor that does not start before both caches have their first list, and that asks the store before it deletes.
func NewRight(sites store.Store[Site], servers store.Store[Server]) (janitor, c *controller.Controller[string], err error) {
	cached, running, err := caches(sites, servers)
	if err != nil {
		return nil, nil, err
	}
	serversOf := func(_ context.Context, site store.Object[Site]) ([]string, error) { return []string{site.Key}, nil }
	janitor, err = controller.New("janitor", func(ctx context.Context, key string) (controller.Result, error) {
		server, ok := running.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		if _, ok := cached.Get(server.Value.Site); ok {
			return controller.Result{}, nil
		}
		if _, err := sites.Get(ctx, server.Value.Site); !errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, err // it exists after all, or the read failed
		}
		_, err := servers.Delete(ctx, key, store.IfUID(server.UID))
		return controller.Result{}, unless(err, store.ErrNotFound)
	}, controller.Config[string]{}, controller.For(running), controller.Watches(cached, serversOf))
	if err != nil {
		return nil, nil, err
	}
	c, err = newSites(sites, servers, cached, func(string, bool) {})
	return janitor, c, err
}
