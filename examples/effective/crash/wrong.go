package crash

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns a controller that takes the ID in the status as a sign that everything is done.
func NewWrong(networks store.Store[Network], records store.Store[Record], cloud Cloud) (*controller.Controller[string], error) {
	cached, known, err := caches(networks, records)
	if err != nil {
		return nil, err
	}
	return controller.New("networks", func(ctx context.Context, key string) (controller.Result, error) {
		network, ok := cached.Get(key)
		if !ok || network.Value.Status.ID != "" {
			return controller.Result{}, nil // nothing to do
		}
		id, err := cloud.Create(ctx, network.Value.CIDR, "")
		if err != nil {
			return controller.Result{}, err
		}
		network.Value.Status = Status{ID: id, Ready: true}
		if _, err := networks.UpdateStatus(ctx, network); err != nil {
			return controller.Result{}, err
		}
		_, err = records.Create(ctx, store.Object[Record]{Key: key, Value: Record{ID: id}})
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached), controller.Watches(known, networkOf))
}
