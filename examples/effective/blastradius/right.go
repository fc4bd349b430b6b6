package blastradius

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// usual is the number of machines that one pass may wipe without asking.
const usual = 4

// NewRight returns a controller that names the machines to wipe, and wipes only a few at once.
func NewRight(racks store.Store[Rack], machines store.Store[Machine], wipe Wiper) (*controller.Controller[string], error) {
	cached, err := informer.New(racks, store.Key, informer.Config{Name: "racks"})
	if err != nil {
		return nil, err
	}
	return controller.New("racks", func(ctx context.Context, key string) (controller.Result, error) {
		rack, ok := cached.Get(key)
		if !ok || !rack.Value.TakeDown || rack.Value.Done {
			return controller.Result{}, nil
		}
		left, err := unwiped(ctx, machines, key)
		if err != nil {
			return controller.Result{}, err
		}
		if limit := max(usual, rack.Value.MayWipe); len(left) > limit {
			return controller.Result{}, retry.Permanent(fmt.Errorf(
				"rack %s has %d machines to wipe, and %d are allowed: check them, and set MayWipe", key, len(left), limit))
		}
		if len(left) > 0 { // no names would mean all machines
			if err := wipe(ctx, names(left)...); err != nil {
				return controller.Result{}, err
			}
		}
		if err := markWiped(ctx, machines, left); err != nil {
			return controller.Result{}, err
		}
		rack.Value.Done = true
		_, err = racks.UpdateStatus(ctx, rack)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}
