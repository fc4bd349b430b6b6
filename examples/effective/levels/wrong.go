package levels

import (
	"context"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Order is an action that an event asks for.
type Order struct {
	Do, Site string
	N        int // number of the server
}

// NewWrong returns a controller whose keys are orders. An event says what has changed, and the orders say what to do about it.
func NewWrong(sites store.Store[Site], servers store.Store[Server]) (*controller.Controller[Order], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, err
	}
	orders := func(add func(Order)) informer.Handler[string, store.Object[Site]] {
		scale := func(site string, from, to int) {
			for i := from; i < to; i++ {
				add(Order{"create", site, i})
			}
			for i := to; i < from; i++ {
				add(Order{"delete", site, i})
			}
		}
		return informer.Handler[string, store.Object[Site]]{
			OnAdd:    func(s store.Object[Site], _ bool) { scale(s.Key, 0, s.Value.Servers) },
			OnUpdate: func(old, new store.Object[Site]) { scale(new.Key, old.Value.Servers, new.Value.Servers) },
			OnDelete: func(d cache.Tombstone[string, store.Object[Site]]) { scale(d.Key, d.Object.Value.Servers, 0) },
		}
	}
	return controller.New("orders", func(ctx context.Context, o Order) (controller.Result, error) {
		if o.Do == "delete" {
			_, err := servers.Delete(ctx, serverKey(o.Site, o.N))
			return controller.Result{}, unless(err, store.ErrNotFound)
		}
		_, err := servers.Create(ctx, newServer(o.Site, o.N))
		return controller.Result{}, unless(err, store.ErrExists)
	}, controller.Config[Order]{}, controller.Handles(cached, orders))
}
