package cookbook

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
)

// reconciler is the type of a reconcile function of sites.
type reconciler func(ctx context.Context, name string) (controller.Result, error)

// both runs two controllers on one table. They share the informer, which the manager runs once. Each has its own queue and workers, so a slow
// certificate does not delay a server. Each must write columns of its own.
func both(sites *informer.Informer[string, Site], servers, certificates reconciler) (*manager.Manager, error) {
	first, err1 := controller.New("servers", servers, controller.Config[string]{}, controller.For(sites))
	second, err2 := controller.New("certificates", certificates, controller.Config[string]{}, controller.For(sites))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return manager.New(manager.Config{}, first, second)
}

// intended ignores changes of what the program itself writes. For a table of your own, it compares the columns of the user; for a store, use
// store.GenerationChanged.
func intended(sites *informer.Informer[string, Site]) controller.Input[string] {
	return controller.For(sites).When(func(old, new Site) bool {
		old.Running, new.Running = 0, 0
		return old != new
	})
}

// backfill reconciles every site again, behind everything that users change in the meantime.
func backfill(c *controller.Controller[string], sites *informer.Informer[string, Site]) {
	for name := range sites.All() {
		c.AddWith(name, controller.AddOptions{Priority: -10, Reason: "backfill"})
	}
}
