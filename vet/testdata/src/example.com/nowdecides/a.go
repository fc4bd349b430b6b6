package nowdecides

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/store"
)

type Job struct{ Expires time.Time }

const ttl = time.Hour

func wrong(jobs store.Store[Job], cached *store.Informer[Job]) {
	controller.New("a", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if time.Since(job.Created) > ttl { // want `this deletion is due when the time has come, but is made at the next event, .*chapter 7`
			_, err := jobs.Delete(ctx, key)
			return controller.Result{}, err
		}
		return controller.Result{}, nil
	}, controller.Config[string]{})
	controller.New("b", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		now := time.Now()
		if now.Before(job.Value.Expires) { // want `this deletion is due`
			return controller.Result{}, nil
		}
		_, err := jobs.Delete(ctx, key)
		return controller.Result{}, err
	}, controller.Config[string]{})
	controller.New("c", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		expired := time.Until(job.Value.Expires) <= 0
		if expired { // want `this deletion is due`
			return controller.Result{}, remove(ctx, jobs, key)
		}
		return controller.Result{}, nil
	}, controller.Config[string]{})
}

func remove(ctx context.Context, jobs store.Store[Job], key string) error {
	_, err := jobs.Delete(ctx, key)
	return err
}

func right(jobs store.Store[Job], cached *store.Informer[Job]) {
	controller.New("a", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if left := time.Until(job.Value.Expires); left > 0 {
			return controller.Result{RequeueAfter: left}, nil
		}
		_, err := jobs.Delete(ctx, key)
		return controller.Result{}, err
	}, controller.Config[string]{})
	controller.New("b", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if time.Since(job.Created) > ttl {
			_, err := jobs.Delete(ctx, key)
			return controller.Result{}, err
		}
		return controller.Result{}, nil
	}, controller.Config[string]{Resync: time.Minute}) // comes back
	controller.New("c", func(ctx context.Context, key string) (controller.Result, error) {
		start := time.Now()
		if _, err := jobs.Delete(ctx, key); err != nil {
			return controller.Result{}, err
		}
		if time.Since(start) > time.Second {
			controller.Logger(ctx).Warn("slow")
		}
		return controller.Result{}, nil
	}, controller.Config[string]{})
}
