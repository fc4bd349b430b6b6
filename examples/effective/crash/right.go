package crash

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns a controller that may stop after any line.
func NewRight(networks store.Store[Network], records store.Store[Record], cloud Cloud) (*controller.Controller[string], error) {
	cached, known, err := caches(networks, records)
	if err != nil {
		return nil, err
	}
	return controller.New("networks", func(ctx context.Context, key string) (controller.Result, error) {
		network, ok := cached.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		id := network.Value.Status.ID
		if id == "" {
			var err error
			if id, err = cloud.Create(ctx, network.Value.CIDR, network.UID); err != nil {
				return controller.Result{}, err
			}
		}
		if _, ok := known.Get(key); !ok {
			_, err := records.Create(ctx, store.Object[Record]{Key: key, Value: Record{ID: id}})
			if err := unless(err, store.ErrExists); err != nil {
				return controller.Result{}, err
			}
		}
		network.Value.Status = Status{ID: id, Ready: true} // last: it says that the rest is done
		_, err := networks.UpdateStatus(ctx, network)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached), controller.Watches(known, networkOf))
}
