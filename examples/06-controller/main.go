// Command 06-controller reconciles sites. Some succeed at once, some later, and some never. The writer of a site waits until the
// write has been reconciled, and learns if that never happens.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Site is the desired state of a site.
type Site struct{ Servers int }

// reconciler makes the world equal to what the cache has for a key. It does not know what happened, or how often.
type reconciler struct {
	cache *store.Informer[Site]
}

// Reconcile returns when it wants to be called again for the key, or the error that stopped it.
func (r *reconciler) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	_, ok := r.cache.Get(name)
	info, _ := controller.FromContext(ctx) // the attempt, and the reasons
	switch {
	case !ok:
		return controller.Result{}, nil // it was deleted: nothing is left to do here
	case name == "oslo" && info.Attempt < 3:
		return controller.Result{}, errors.New("no route to host") // again, after a backoff
	case name == "lima":
		return controller.Result{}, errors.New("no route to host") // until its attempts are spent
	case name == "atlantis":
		return controller.Result{}, retry.Permanent(errors.New("no such place")) // a retry cannot help
	}
	controller.Logger(ctx).Info("applied") // names the controller, the key, and the attempt
	return controller.Result{RequeueAfter: time.Hour}, nil
}

func main() {
	db := store.NewMemory(store.MemoryConfig{})
	sites, err := store.Open[Site](db, "Site", store.Config[Site]{})
	check(err)
	cache, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	check(err)
	c, err := controller.New("sites", (&reconciler{cache}).Reconcile, controller.Config[string]{
		Workers: 2,
		Queue:   workqueue.Config[string]{MaxAttempts: 3},
		Logger:  slog.New(slog.DiscardHandler),
	}, controller.For(cache))
	check(err)

	m, err := manager.New(manager.Config{}, c)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()

	for _, name := range []string{"berlin", "oslo", "lima", "atlantis"} {
		site, err := sites.Create(ctx, store.Object[Site]{Key: name, Value: Site{Servers: 3}})
		check(err)
		switch err := c.WaitReconciled(ctx, name, site); {
		case err == nil:
			fmt.Println(name, "is as it was written")
		case retry.IsPermanent(err):
			fmt.Println(name, "can never be")
		case errors.Is(err, controller.ErrParked):
			fmt.Println(name, "was tried for too long")
		default:
			check(err)
		}
	}
	check(c.WaitIdle(ctx)) // a late event revives a parked key: atlantis is parked again by now, lima may wait for a retry
	fmt.Println("atlantis is parked:", slices.Contains(c.Parked(), "atlantis"))

	stop() // events end, the queue drains, and the work in flight is done
	check(<-ended)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
