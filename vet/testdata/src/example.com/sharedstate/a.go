package sharedstate

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/workqueue"
	kcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var total int

func wrong(workers int, q *workqueue.Queue[string]) error {
	var count int
	seen := make(map[string]bool)
	var err error
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		count++          // want `count is shared by the reconciles of all keys, which write it concurrently without a lock, .*chapter 10`
		seen[key] = true // want `seen is shared`
		delete(seen, "") // want `seen is shared`
		total = count    // want `total is shared`
		func() {
			err = ctx.Err() // want `err is shared`
		}()
		return controller.Result{}, err
	}, controller.Config[string]{Workers: 4})
	q.Run(context.Background(), workers, func(ctx context.Context, item workqueue.Item[string]) error {
		seen[item.Key] = true // want `seen is shared`
		return nil
	})
	s := &sites{}
	controller.New("sites", s.sync, controller.Config[string]{Workers: workers})
	return err
}

type sites struct {
	last  string
	mu    sync.Mutex
	names map[string]bool
	inner struct{ n int }
}

func (s *sites) sync(ctx context.Context, key string) (controller.Result, error) {
	s.last = key // want `s.last is shared`
	s.inner.n++  // want `s.inner.n is shared`
	s.remember(key)
	s.count(key)
	local := &sites{}
	local.count(key)
	return controller.Result{}, nil
}

func (s *sites) remember(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[key] = true
}

func (s *sites) count(key string) {
	s.names[key] = true // want `s.names is shared`
}

type reconciler struct{ last string }

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.last = req.Name // want `r.last is shared`
	return reconcile.Result{}, nil
}

func (r *reconciler) SetupWithManager(n int) any {
	return kcontroller.Options{MaxConcurrentReconciles: n}
}

// alone has one worker, next to another reconciler with several.
type alone struct{ last string }

func (r *alone) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.last = req.Name
	return reconcile.Result{}, nil
}

func (r *alone) SetupWithManager() any { return kcontroller.Options{} }

// made gets its workers where it is made.
type made struct{ last string }

func (r *made) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.last = req.Name // want `r.last is shared`
	return reconcile.Result{}, nil
}

func makes() (any, any) { return &made{}, kcontroller.Options{MaxConcurrentReconciles: 2} }

func right(q *workqueue.Queue[string]) {
	var count int
	var atomically atomic.Int64
	var mu sync.Mutex
	var once sync.Once
	seen := make(map[string]bool)
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		count++ // one worker
		return controller.Result{}, nil
	}, controller.Config[string]{})
	q.Run(context.Background(), 1, func(ctx context.Context, item workqueue.Item[string]) error {
		count++ // one worker
		return nil
	})
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		atomically.Add(1)
		mu.Lock()
		seen[key] = true
		mu.Unlock()
		once.Do(func() { count = 1 })
		local := make(map[string]bool)
		local[key] = true
		ctx = context.WithValue(ctx, key, 1)
		key = ""
		return controller.Result{}, ctx.Err()
	}, controller.Config[string]{Workers: 4})
}

// newController passes a reconcile and a number of workers on.
func newController(workers int, reconcile func(context.Context, string) (controller.Result, error)) {
	controller.New("sites", reconcile, controller.Config[string]{Workers: workers})
}

func helped() {
	many, one := 0, 0
	outer := func(workers int) {
		newController(workers, func(ctx context.Context, key string) (controller.Result, error) {
			many++ // want `many is shared`
			return controller.Result{}, nil
		})
	}
	outer(2)
	newController(1, func(ctx context.Context, key string) (controller.Result, error) {
		one++ // one worker
		return controller.Result{}, nil
	})
}
