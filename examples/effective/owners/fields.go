package owners

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Pool is a number of servers.
type Pool struct {
	Demand, Budget int
	Size           int `store:"status"`
}

// NewWrongSizes returns two controllers that each decide the size of a pool.
func NewWrongSizes(pools store.Store[Pool]) (scaler, budget *controller.Controller[string], err error) {
	scaler, err = sizes("scaler", pools, func(p *Pool) { p.Size = p.Demand })
	if err != nil {
		return nil, nil, err
	}
	budget, err = sizes("budget", pools, func(p *Pool) { p.Size = min(p.Size, p.Budget) })
	return scaler, budget, err
}

// NewRightSizes returns one controller that decides the size of a pool.
func NewRightSizes(pools store.Store[Pool]) (*controller.Controller[string], error) {
	return sizes("sizes", pools, func(p *Pool) { p.Size = min(p.Demand, p.Budget) })
}

// sizes returns a controller that writes the size of each pool.
func sizes(name string, pools store.Store[Pool], decide func(*Pool)) (*controller.Controller[string], error) {
	cached, err := informer.New(pools, store.Key, informer.Config{Name: "pools"})
	if err != nil {
		return nil, err
	}
	return controller.New(name, func(ctx context.Context, key string) (controller.Result, error) {
		pool, ok := cached.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		decide(&pool.Value)
		_, err := pools.UpdateStatus(ctx, pool) // writes nothing if nothing has changed
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}
