package stale

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns the agent of a node. Before it starts a pod, it reads the pod from the store.
func NewRight(node string, pods store.Store[Pod], machine Machine) (*controller.Controller[string], error) {
	cached, err := informer.New(pods, store.Key, informer.Config{Name: "pods"})
	if err != nil {
		return nil, err
	}
	return controller.New("agent", func(ctx context.Context, key string) (controller.Result, error) {
		pod, ok := cached.Get(key)
		wanted := ok && pod.Value.Node == node
		switch holder := pod.Value.Status.Holder; {
		case wanted && holder == node:
			now, err := pods.Get(ctx, key)
			if err != nil || now.Version != pod.Version {
				return controller.Result{}, unless(err, store.ErrNotFound) // the event of the newer version will come
			}
			return controller.Result{}, machine.Start(ctx, key)
		case wanted && holder == "":
			return controller.Result{}, setHolder(ctx, pods, pod, node)
		case wanted:
			return controller.Result{}, nil
		default:
			if err := machine.Stop(ctx, key); err != nil || holder != node {
				return controller.Result{}, err
			}
			return controller.Result{}, setHolder(ctx, pods, pod, "")
		}
	}, controller.Config[string]{}, controller.For(cached))
}

// unless returns err, or nil if the error means that there is nothing to do.
func unless(err, done error) error {
	if errors.Is(err, done) {
		return nil
	}
	return err
}
