package blastradius

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns a controller that wipes all machines of a rack that are not wiped yet, however many there are.
func NewWrong(racks store.Store[Rack], machines store.Store[Machine], wipe Wiper) (*controller.Controller[string], error) {
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
		if err := wipe(ctx, names(left)...); err != nil {
			return controller.Result{}, err
		}
		if err := markWiped(ctx, machines, left); err != nil {
			return controller.Result{}, err
		}
		rack.Value.Done = true
		_, err = racks.UpdateStatus(ctx, rack)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}

// unwiped returns the machines of a rack whose disks are still to be wiped.
func unwiped(ctx context.Context, machines store.Store[Machine], rack string) (left []store.Object[Machine], err error) {
	all, err := machines.List(ctx)
	for _, m := range all.Items {
		if m.Value.Rack == rack && !m.Value.Wiped {
			left = append(left, m)
		}
	}
	return left, err
}

// names returns the names of machines.
func names(machines []store.Object[Machine]) (names []string) {
	for _, m := range machines {
		names = append(names, m.Key)
	}
	return names
}

// markWiped records which machines are wiped.
func markWiped(ctx context.Context, machines store.Store[Machine], wiped []store.Object[Machine]) error {
	for _, m := range wiped {
		m.Value.Wiped = true
		if _, err := machines.UpdateStatus(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
