package levels

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns a controller whose keys are sites. A key says where to look, not what has happened.
func NewRight(sites store.Store[Site], servers store.Store[Server]) (*controller.Controller[string], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	running, err := informer.New(servers, store.Key, informer.Config{Name: "servers"})
	if err != nil {
		return nil, err
	}
	siteOf := func(_ context.Context, s store.Object[Server]) ([]string, error) { return []string{s.Value.Site}, nil }
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, _ := cached.Get(key) // a deleted site wants no servers
		want := make(map[string]bool)
		var errs []error
		for i := range site.Value.Servers {
			want[serverKey(key, i)] = true
			if _, ok := running.Get(serverKey(key, i)); !ok {
				_, err := servers.Create(ctx, newServer(key, i))
				errs = append(errs, unless(err, store.ErrExists))
			}
		}
		for name, server := range running.All() {
			if server.Value.Site == key && !want[name] {
				_, err := servers.Delete(ctx, name)
				errs = append(errs, unless(err, store.ErrNotFound))
			}
		}
		return controller.Result{}, errors.Join(errs...)
	}, controller.Config[string]{}, controller.For(cached), controller.Watches(running, siteOf))
}
