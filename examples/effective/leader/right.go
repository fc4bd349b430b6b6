package leader

import (
	"context"
	"errors"
	"sync"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns a controller that sends its term to the balancer.
func NewRight(sites store.Store[Site], balancer API) (*controller.Controller[string], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		leads, ok := leaderelect.FromContext(ctx)
		if !ok {
			return controller.Result{}, errors.New("this controller needs a leader election")
		}
		if err := balancer.RouteAs(ctx, leads.Term(), key, site.Value.Backend); err != nil {
			return controller.Result{}, err
		}
		site.Value.Status.Routed = site.Value.Backend
		_, err := sites.UpdateStatus(ctx, site) // carries the term automatically
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached).When(store.GenerationChanged[Site]))
}

// Balancer is a load balancer. The zero value has no routes.
type Balancer struct {
	guard fence.Guard

	mu sync.Mutex

	// mu guards the following.

	routes map[string]string
}

// RouteAs sends the requests for a site to a backend, unless a later leader has called before.
func (b *Balancer) RouteAs(ctx context.Context, term uint64, site, backend string) error {
	return b.guard.Do(ctx, term, func(ctx context.Context) error {
		return b.Route(ctx, site, backend)
	})
}

// Route sends the requests for a site to a backend.
func (b *Balancer) Route(_ context.Context, site, backend string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.routes == nil {
		b.routes = make(map[string]string)
	}
	b.routes[site] = backend
	return nil
}

// Backend returns the backend of a site.
func (b *Balancer) Backend(site string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.routes[site]
}
