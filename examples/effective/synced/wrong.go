package synced

import (
	"context"
	"sync"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns a janitor that reads the existing sites from a map, which the other controller fills.
func NewWrong(sites store.Store[Site], servers store.Store[Server]) (janitor, c *controller.Controller[string], err error) {
	cached, running, err := caches(sites, servers)
	if err != nil {
		return nil, nil, err
	}
	var live sync.Map // the sites that exist
	janitor, err = controller.New("janitor", func(ctx context.Context, key string) (controller.Result, error) {
		server, ok := running.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		if _, ok := live.Load(server.Value.Site); ok {
			return controller.Result{}, nil
		}
		_, err := servers.Delete(ctx, key) // its site is gone
		return controller.Result{}, unless(err, store.ErrNotFound)
	}, controller.Config[string]{}, controller.For(running))
	if err != nil {
		return nil, nil, err
	}
	c, err = newSites(sites, servers, cached, func(site string, exists bool) {
		if exists {
			live.Store(site, true)
		} else {
			live.Delete(site)
			janitor.Add(site)
		}
	})
	return janitor, c, err
}
