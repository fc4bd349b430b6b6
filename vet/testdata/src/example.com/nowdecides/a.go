package nowdecides

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

type Job struct{ Starts, Expires time.Time }

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

// The requests for another reconcile are for another time, or for a failure.
func another(jobs store.Store[Job], cached *store.Informer[Job]) {
	controller.New("a", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if time.Now().After(job.Created.Add(ttl)) { // want `this deletion is due`
			_, err := jobs.Delete(ctx, key)
			return controller.Result{}, err
		}
		if early := time.Until(job.Value.Starts); early > 0 {
			return controller.Result{RequeueAfter: early}, nil
		}
		result := controller.Result{}
		if _, err := jobs.UpdateStatus(ctx, job); err != nil {
			result.RequeueAfter = time.Second
		}
		return result, nil
	}, controller.Config[string]{})
	controller.New("b", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if time.Now().After(job.Created.Add(ttl)) { // want `this deletion is due`
			_, err := jobs.Delete(ctx, key)
			return controller.Result{}, err
		}
		if err := run(ctx, job); err != nil {
			return controller.Result{}, retry.NotYet(err, time.Second)
		}
		return controller.Result{}, retry.NotYet(errTooEarly, time.Until(job.Value.Starts))
	}, controller.Config[string]{})
}

var errTooEarly = errors.New("too early")

func run(ctx context.Context, job store.Object[Job]) error { return ctx.Err() }

func rightTimes(jobs store.Store[Job], cached *store.Informer[Job]) {
	due := func(job store.Object[Job]) bool { return time.Now().After(job.Created.Add(ttl)) }
	controller.New("a", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if time.Now().After(job.Created.Add(ttl)) {
			_, err := jobs.Delete(ctx, key)
			return controller.Result{}, err
		}
		left := time.Until(job.Created.Add(ttl))
		return controller.Result{RequeueAfter: min(left, time.Until(job.Value.Starts))}, nil // the earlier one
	}, controller.Config[string]{})
	controller.New("b", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if time.Now().After(job.Created.Add(ttl)) {
			_, err := jobs.Delete(ctx, key)
			return controller.Result{}, err
		}
		return controller.Result{RequeueAfter: time.Minute}, nil // looks again and again
	}, controller.Config[string]{})
	controller.New("c", func(ctx context.Context, key string) (controller.Result, error) {
		job, _ := cached.Get(key)
		if time.Now().After(job.Created.Add(ttl)) || due(job) {
			_, err := jobs.Delete(ctx, key)
			return controller.Result{}, err
		}
		return controller.Result{RequeueAfter: next(job)}, nil // who knows
	}, controller.Config[string]{})
}

func next(job store.Object[Job]) time.Duration { return time.Until(job.Created.Add(ttl)) }
