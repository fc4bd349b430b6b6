package leadercontext

import (
	"context"
	"log/slog"
	"os/exec"
	"time"

	"example.com/leadercontext/cloud"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type Site struct{}

func wrong(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		if _, err := sites.Delete(context.Background(), key); err != nil { // want `context.Background lets this call of a reconcile go on without its fence, its deadline, and the stop: .*chapter 8`
			return controller.Result{}, err
		}
		c := context.TODO() // want `context.TODO lets`
		if _, err := sites.Delete(c, key); err != nil {
			return controller.Result{}, err
		}
		func() {
			sites.Delete(context.WithoutCancel(ctx), key) // want `context.WithoutCancel keeps this call of a reconcile running`
		}()
		if err := cloud.Forget(); err != nil { // want `cloud.Forget \(context.Background at cloud.go:9\) goes on without`
			return controller.Result{}, err
		}
		return controller.Result{}, helper(sites, key)
	}, controller.Config[string]{})
}

func helper(sites store.Store[Site], key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // want `context.Background lets`
	defer cancel()
	_, err := sites.Delete(ctx, key)
	return err
}

type reconciler struct{ client client.Client }

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, r.client.Get(context.TODO(), req.Name, nil) // want `context.TODO lets`
}

func queue(sites store.Store[Site], q *workqueue.Queue[string]) {
	work := func(ctx context.Context, item workqueue.Item[string]) error {
		_, err := sites.Delete(context.Background(), item.Key) // want `context.Background lets`
		return err
	}
	q.Run(context.Background(), 1, work) // not a part of the reconcile
}

func right(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		slog.InfoContext(context.Background(), "a log needs no leader")
		go sites.Delete(context.Background(), key) // not a part of the reconcile
		cloud.Later()
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // cleans up, for a limited time
			defer cancel()
			sites.Delete(ctx, "lock")
		}()
		//setpoint:ignore leadercontext -- the record of the audit must survive the stop
		_, err := sites.Delete(context.Background(), key)
		return controller.Result{}, err
	}, controller.Config[string]{})
	sites.Delete(context.Background(), "at start")
}

func ignoredWithoutReason(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_, err := sites.Delete(context.Background(), key) //setpoint:ignore leadercontext // want `context.Background lets`
		if err != nil {
			return controller.Result{}, err
		}
		_, err = sites.Delete(context.Background(), key) //setpoint:ignore swallowed -- another analyzer // want `context.Background lets`
		return controller.Result{}, err
	}, controller.Config[string]{})
}

// A server goes on after the reconcile that starts it.
type server struct {
	life context.Context
	end  func()
}

func (s *server) start(sites store.Store[Site]) {
	s.life, s.end = context.WithCancel(context.Background())
	go sites.Delete(s.life, "a")
	exec.CommandContext(context.Background(), "server").Start()
}

func (s *server) startAgain(sites store.Store[Site]) *server {
	life, end := context.WithCancel(context.Background())
	go sites.Delete(life, "a")
	go func() { sites.Delete(life, "b") }()
	return &server{end: end}
}

func (s *server) wrong(sites store.Store[Site]) {
	life, end := context.WithCancel(context.Background()) // want `context.Background lets`
	defer end()
	sites.Delete(life, "a")
	exec.CommandContext(context.Background(), "true").Run() // want `context.Background lets`
}

func again(ctx context.Context, sites store.Store[Site]) {
	ctx = context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	ctx, end := context.WithTimeout(ctx, time.Second)
	defer end()
	defer cancel()
	sites.Delete(ctx, "a") // for a limited time
}

func againWithoutLimit(sites store.Store[Site]) {
	ctx := context.Background() // want `context.Background lets`
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sites.Delete(ctx, "a")
}

func servers(sites store.Store[Site]) {
	entry := owner.Finalizer[Site]{
		Cleanup: func(ctx context.Context, site store.Object[Site]) error {
			_, err := sites.Delete(context.TODO(), site.Key) // want `context.TODO lets`
			return err
		},
	}
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		s := &server{}
		s.start(sites)
		s.startAgain(sites)
		again(ctx, sites)
		againWithoutLimit(sites)
		func() {
			soon, end := context.WithTimeout(context.Background(), time.Second) // want `context.Background lets`
			defer end()
			func() { sites.Delete(soon, "c") }()
		}()
		s.wrong(sites)
		_, _, err := entry.Reconcile(ctx, sites, key)
		return controller.Result{}, err
	}, controller.Config[string]{})
}
