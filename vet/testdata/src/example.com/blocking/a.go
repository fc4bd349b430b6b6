package blocking

import (
	"context"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"example.com/blocking/poll"
	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	kcache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type Site struct{ URL string }

func wrong(ready chan bool, cond *sync.Cond) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		time.Sleep(time.Second)                   // want `time.Sleep occupies the worker of this reconcile, which then does nothing else, and a stop waits for it: return, and ask for the next reconcile .*chapter 10`
		<-ready                                   // want `this receive occupies`
		cond.Wait()                               // want `Cond.Wait occupies`
		poll.Ready()                              // want `poll.Ready \(time.Sleep at poll.go:11\) occupies`
		_, err := http.Get(key)                   // want `http.Get occupies .* use the form that takes the context`
		exec.Command("true").Run()                // want `exec.Command occupies`
		_, err = http.NewRequest("GET", key, nil) // want `http.NewRequest occupies`
		select {                                  // want `this select occupies`
		case <-ready:
		case ready <- true:
		}
		return controller.Result{}, err
	}, controller.Config[string]{})
}

func right(ready chan bool) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		select {
		case <-ready:
		case <-ctx.Done():
			return controller.Result{}, ctx.Err()
		}
		select {
		case <-ready:
		default:
		}
		if _, err := http.NewRequestWithContext(ctx, "GET", key, nil); err != nil {
			return controller.Result{}, err
		}
		if err := all(ctx); err != nil {
			return controller.Result{}, err
		}
		go time.Sleep(time.Second)
		return controller.Result{RequeueAfter: time.Second}, exec.CommandContext(ctx, "true").Run()
	}, controller.Config[string]{})
	time.Sleep(time.Second)
}

// all collects the results of goroutines.
func all(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make(chan error, 1)
	wg.Go(func() { errs <- ctx.Err() })
	wg.Wait()
	return <-errs
}

func handles(sites store.Store[Site], inf *store.Informer[Site], add func(string)) {
	_ = informer.Handler[string, store.Object[Site]]{
		OnAdd: func(site store.Object[Site], _ bool) {
			sites.Delete(context.Background(), site.Key) // want `Store.Delete in a handler delays all later events, and nothing tries it again if it fails`
		},
		OnUpdate: func(old, new store.Object[Site]) {
			time.Sleep(time.Second) // want `time.Sleep in a handler delays all later events`
			poll.Save(new.Key)      // want `poll.Save \(os.WriteFile at poll.go:16\) in a handler delays`
		},
		OnDelete: func(d cache.Tombstone[string, store.Object[Site]]) { add(d.Key) },
	}
	controller.For(inf).When(func(old, new store.Object[Site]) bool {
		_, err := http.Get(new.Value.URL) // want `http.Get in a handler`
		return err == nil
	})
	_ = kcache.ResourceEventHandlerFuncs{AddFunc: added}
}

func added(obj any) {
	time.Sleep(time.Second) // want `time.Sleep in a handler`
}

// A mapper may fail, and is tried again.
func maps(sites store.Store[Site], inf *store.Informer[Site], c client.Client) {
	controller.Watches[string](inf, func(ctx context.Context, site store.Object[Site]) ([]string, error) {
		owner, err := sites.Get(ctx, site.Key)
		return []string{owner.Key}, err
	})
	handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		c.Get(ctx, "owner", obj)
		return nil
	})
}
