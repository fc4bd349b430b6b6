package blocking

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"example.com/blocking/poll"
	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
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

// pool is stopped by the one that has started it.
type pool struct{ workers sync.WaitGroup }

func (p *pool) stop() { p.workers.Wait() }

func pools(others *sync.WaitGroup) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		p := &pool{}
		defer p.stop()
		others.Wait() // want `WaitGroup.Wait occupies`
		return controller.Result{}, nil
	}, controller.Config[string]{})
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

// host has one implementation: *poll.Machine.
type host interface {
	Stop(name string) error
	Check(name string) error
}

// disk has two: who knows which one it is.
type disk interface{ Wipe() }

type slow struct{}

func (slow) Wipe() { time.Sleep(time.Second) }

type quick struct{}

func (quick) Wipe() {}

// network has one, next to the one of the tests.
type network interface{ Dial() }

type cable struct{}

func (cable) Dial() { time.Sleep(time.Second) } // want `time.Sleep occupies`

type fakeNetwork struct{}

func (fakeNetwork) Dial() {}

type machines struct {
	host
	disk
	network
	wait  func()
	other func()
}

func (m *machines) reconcile(ctx context.Context, key string) (controller.Result, error) {
	m.wait()
	m.other()
	m.Wipe()
	m.Dial()
	err := each(m.Stop) // want `Machine.Stop \(time.Sleep at poll.go:22\) occupies`
	keep(m.pause)
	return controller.Result{}, errors.Join(err, each(m.Check), each(m.end), retry.OnError(ctx, m.again))
}

// each calls a function.
func each(end func(name string) error) error { return end("a") }

// keep does not.
func keep(f func()) func() { return f }

func (m *machines) pause() { time.Sleep(time.Second) }

func (m *machines) end(name string) error {
	time.Sleep(time.Second) // want `time.Sleep occupies`
	return nil
}

func (m *machines) again(ctx context.Context) error {
	time.Sleep(time.Second) // want `time.Sleep occupies`
	return nil
}

func nap() { time.Sleep(time.Second) } // want `time.Sleep occupies`

func makes() {
	m := &machines{wait: nap, other: func() {}}
	m.other = func() { time.Sleep(time.Second) } // one of two
	controller.New("machines", m.reconcile, controller.Config[string]{})
	exec.Command("true").Start()
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		return controller.Result{}, exec.Command("true").Start() // and does not wait for it
	}, controller.Config[string]{})
}
