package leader

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns a controller that only runs while its process leads, and so expects that no other process calls the balancer.
func NewWrong(sites store.Store[Site], balancer API) (*controller.Controller[string], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		if err := balancer.Route(ctx, key, site.Value.Backend); err != nil {
			return controller.Result{}, err
		}
		site.Value.Status.Routed = site.Value.Backend
		_, err := sites.UpdateStatus(ctx, site)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached).When(store.GenerationChanged[Site]))
}
