package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/store"
)

func TestMemoryStoreKeepsTheSourceContract(t *testing.T) {
	informertest.Run(t, func(t *testing.T) informertest.Subject[object] {
		const history = 400
		db, apps := newApps(t, store.MemoryConfig{History: history})
		jobs := open[App](t, db, "job")
		ctx := context.Background()
		put := func(name string, rev int) error {
			o, err := apps.Get(ctx, name)
			switch {
			case errors.Is(err, store.ErrNotFound):
				_, err = apps.Create(ctx, object{Key: name, Value: App{Replicas: rev}})
			case errors.Is(err, store.ErrDecode):
				return overwrite(db, name, fmt.Sprintf(`{"Replicas":%d}`, rev))
			case err == nil:
				o.Value.Replicas = rev
				_, err = apps.Update(ctx, o)
			}
			return err
		}
		other := 0
		return informertest.Subject[object]{
			Source:  apps,
			Put:     put,
			Delete:  func(name string) error { return errOf(apps.Delete(ctx, name)) },
			Spoil:   func(name string) error { return overwrite(db, name, `"not an app"`) },
			Read:    func(o object) (string, int) { return o.Key, o.Value.Replicas },
			History: history,
			Expire: func() error {
				var errs []error
				for i := range history + 1 {
					errs = append(errs, put("filler", i))
				}
				return errors.Join(errs...)
			},
			Bookmark: func() error {
				other++
				_, err := jobs.Create(ctx, object{Key: fmt.Sprint(other)})
				return err
			},
		}
	})
}
