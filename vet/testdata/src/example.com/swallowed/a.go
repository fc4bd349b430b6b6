package swallowed

import (
	"context"
	"errors"
	"log"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

type Site struct{}

func wrong(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, err := sites.Get(ctx, key)
		if err != nil {
			controller.Logger(ctx).Error("get", "err", err)
			return controller.Result{}, nil // want `nil is returned although Store.Get has failed, so no retry follows, .*chapter 4`
		}
		if _, err := sites.Update(ctx, site); err != nil && !errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, nil // want `nil is returned although Store.Update has failed`
		}
		if _, err := sites.Update(ctx, site); err != nil {
			log.Print(err) // want `the error of Store.Update is only logged`
		}
		sites.Create(ctx, site)        // want `the error of Store.Create is dropped`
		_, _ = sites.Create(ctx, site) // want `the error of Store.Create is dropped`
		if err := helper(ctx, sites); err != nil {
			return controller.Result{}, err
		}
		_, err = sites.UpdateStatus(ctx, site)
		return controller.Result{}, nil // want `nil is returned whether or not Store.UpdateStatus has failed`
	}, controller.Config[string]{})
}

func helper(ctx context.Context, sites store.Store[Site]) error {
	if _, err := sites.Delete(ctx, "a"); err != nil {
		log.Println(err)
		return nil // want `nil is returned although Store.Delete has failed`
	}
	return nil
}

type dns interface {
	Put(ctx context.Context, name string) error
	Log(ctx context.Context, name string)
}

func drops(ctx context.Context, d dns) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		d.Log(ctx, key)
		if key == "" {
			d.Put(ctx, key) // the error below is returned
			return controller.Result{}, errors.New("no key")
		}
		d.Put(ctx, key) // want `the error of dns.Put is dropped`
		return controller.Result{}, nil
	}, controller.Config[string]{})
}

func collects(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		var errs []error
		for _, name := range []string{"a", "b"} {
			_, err := sites.Delete(ctx, name)
			errs = append(errs, err) // want `the errors in errs are never returned`
		}
		return controller.Result{}, nil
	}, controller.Config[string]{})
}

func right(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, err := sites.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, nil
		} else if err != nil {
			return controller.Result{}, err
		}
		if _, err := strconv.Atoi(key); err != nil {
			log.Print(err)
			return controller.Result{}, nil // no retry can help
		}
		if _, err := sites.Update(ctx, site); err != nil {
			if !errors.Is(err, store.ErrNotFound) {
				return controller.Result{}, err
			}
			return controller.Result{}, nil
		}
		if _, err := sites.Update(ctx, site); err != nil {
			log.Print(err)
			return controller.Result{RequeueAfter: time.Minute}, nil // comes back
		}
		if _, err := sites.Delete(ctx, key); err != nil {
			sites.UpdateStatus(ctx, site) // the first error is returned
			return controller.Result{}, err
		}
		var errs []error
		_, err = sites.Delete(ctx, key)
		errs = append(errs, err)
		if err := errors.Join(errs...); err != nil {
			return controller.Result{}, err
		}
		_, err = sites.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, err
		}
		if err != nil { // it is store.ErrNotFound
			return controller.Result{}, nil
		}
		return controller.Result{}, nil
	}, controller.Config[string]{})
}

func poll(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		done := func() (bool, error) {
			if _, err := sites.Get(ctx, key); err != nil {
				log.Print(err)
				return false, nil // not yet
			}
			return true, nil
		}
		_, err := done()
		return controller.Result{}, err
	}, controller.Config[string]{})
}

// elsewhere is not a part of a reconcile.
func elsewhere(ctx context.Context, sites store.Store[Site]) error {
	if _, err := sites.Delete(ctx, "a"); err != nil {
		log.Println(err)
		return nil
	}
	return nil
}

// save writes, and returns the error.
func save(ctx context.Context, sites store.Store[Site], site store.Object[Site]) error {
	_, err := sites.UpdateStatus(ctx, site)
	return err
}

// look only reads.
func look(ctx context.Context, sites store.Store[Site]) error {
	_, err := sites.Get(ctx, "a")
	return err
}

func inHelpers(sites store.Store[Site], record *events.Recorder) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, err := sites.Get(ctx, key)
		if err != nil {
			record.Warning(key, "Unreadable", err.Error())
			return controller.Result{}, nil // want `nil is returned although Store.Get has failed`
		}
		if _, err := sites.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, nil // want `nil is returned also if Store.Get has failed with another error`
		}
		_ = save(ctx, sites, site) // want `the error of swallowed.save is dropped, so no retry follows, and a failed write`
		_, err = sites.Update(ctx, site)
		return controller.Result{}, err
	}, controller.Config[string]{})
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		var result controller.Result
		for _, name := range []string{"a", "b"} {
			if _, err := sites.Delete(ctx, name); err != nil {
				log.Print(err) // want `the error of Store.Delete is only logged`
				continue
			}
			if name == "a" {
				result.RequeueAfter = time.Second
			}
		}
		if err := save(ctx, sites, store.Object[Site]{}); err != nil {
			log.Print(err) // want `the error of swallowed.save is only logged`
		}
		return result, nil
	}, controller.Config[string]{})
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		var errs []error
		_, _ = sites.Create(ctx, store.Object[Site]{}) // want `the error of Store.Create is dropped`
		errs = append(errs, look(ctx, sites))
		return controller.Result{}, errors.Join(errs...)
	}, controller.Config[string]{})
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_, err := sites.UpdateStatus(ctx, store.Object[Site]{})
		if err == nil && key != "" {
			log.Print("updated")
		}
		return controller.Result{}, nil // want `nil is returned whether or not Store.UpdateStatus has failed, so no retry follows, and a failed write`
	}, controller.Config[string]{})
}

func rightInHelpers(sites store.Store[Site], record *events.Recorder) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		if err := valid(ctx, key); err != nil {
			record.Warning(key, "Invalid", err.Error())
			return controller.Result{}, nil // until the user changes it
		}
		if _, err := sites.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, err
		}
		result := controller.Result{}
		if err := save(ctx, sites, store.Object[Site]{}); err != nil {
			log.Print(err)
			result.RequeueAfter = time.Second // comes back
		}
		if _, err := sites.UpdateStatus(ctx, store.Object[Site]{}); err != nil {
			log.Print(err)
			return controller.Result{RequeueAfter: time.Second}, nil
		}
		return result, nil
	}, controller.Config[string]{})
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_ = look(ctx, sites) // a read
		var errs []error
		for _, name := range []string{"a", "b"} {
			if _, err := sites.Delete(ctx, name); err != nil {
				log.Print(err)
				errs = append(errs, err)
				continue
			}
		}
		_, err := sites.UpdateStatus(ctx, store.Object[Site]{})
		if err == nil {
			log.Print("updated")
		}
		if err := errors.Join(append(errs, err)...); err != nil {
			_ = save(ctx, sites, store.Object[Site]{}) // the errors are returned
			return controller.Result{}, err
		}
		result := controller.Result{RequeueAfter: time.Hour}
		_ = save(ctx, sites, store.Object[Site]{}) // comes back
		return result, nil
	}, controller.Config[string]{})
}

func valid(ctx context.Context, key string) error { return ctx.Err() }

// A finalizer calls its functions in a reconcile.
func finalizes(sites store.Store[Site]) {
	entry := owner.Finalizer[Site]{
		Apply: func(ctx context.Context, site store.Object[Site]) error {
			sites.Update(ctx, site) // want `the error of Store.Update is dropped`
			return nil
		},
	}
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_, _, err := entry.Reconcile(ctx, sites, key)
		return controller.Result{}, err
	}, controller.Config[string]{})
}
