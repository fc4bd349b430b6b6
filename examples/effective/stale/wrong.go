package stale

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns the agent of a node, which reads pods from its cache.
func NewWrong(node string, pods store.Store[Pod], machine Machine) (*controller.Controller[string], error) {
	cached, err := informer.New(pods, store.Key, informer.Config{Name: "pods"})
	if err != nil {
		return nil, err
	}
	return controller.New("agent", func(ctx context.Context, key string) (controller.Result, error) {
		pod, ok := cached.Get(key)
		wanted := ok && pod.Value.Node == node
		switch holder := pod.Value.Status.Holder; {
		case wanted && holder == node:
			return controller.Result{}, machine.Start(ctx, key)
		case wanted && holder == "": // no node runs it
			return controller.Result{}, setHolder(ctx, pods, pod, node)
		case wanted: // the other node has not stopped it yet
			return controller.Result{}, nil
		default:
			if err := machine.Stop(ctx, key); err != nil || holder != node {
				return controller.Result{}, err
			}
			return controller.Result{}, setHolder(ctx, pods, pod, "") // now another node may start it
		}
	}, controller.Config[string]{}, controller.For(cached))
}

// setHolder replaces the version of the pod that the agent has seen. If there is a newer one, it returns store.ErrConflict.
func setHolder(ctx context.Context, pods store.Store[Pod], pod store.Object[Pod], node string) error {
	pod.Value.Status.Holder = node
	_, err := pods.UpdateStatus(ctx, pod)
	return err
}
