package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

// await waits until cond holds. It checks cond after every change of a cache.
func (o *Orchestrator) await(ctx context.Context, what string, cond func() bool) error {
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, watch := range []func(func()) (informer.Registration, error){
		watching(o.manifests), watching(o.apps.cache), watching(o.deployments.cache), watching(o.services.cache), watching(o.replicas),
	} {
		registration, err := watch(notify)
		if err != nil {
			return err
		}
		defer registration.Remove() // notify may be called once more
		select {
		case <-registration.Synced(): // before that, a deletion may not be reported
		case <-ctx.Done():
		}
	}
	for !cond() {
		select {
		case <-changed:
		case <-ctx.Done():
			var table strings.Builder
			if err := o.WriteStatus(context.WithoutCancel(ctx), &table); err != nil {
				return err
			}
			return fmt.Errorf("webapp: wait until %s: %w\n%s", what, context.Cause(ctx), &table)
		}
	}
	return nil
}

// watching returns a function that registers its argument to be called after each change of a cache. If changes were merged, a creation and
// the deletion after it would be none.
func watching[K comparable, T any](inf *informer.Informer[K, T]) func(notify func()) (informer.Registration, error) {
	return func(notify func()) (informer.Registration, error) {
		return inf.AddHandler(informer.Handler[K, T]{
			OnAdd:    func(T, bool) { notify() },
			OnUpdate: func(_, _ T) { notify() },
			OnDelete: func(cache.Tombstone[K, T]) { notify() },

			EveryEvent: true,
		})
	}
}
