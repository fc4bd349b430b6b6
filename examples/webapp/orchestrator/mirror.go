package orchestrator

import (
	"context"
	"errors"
	"log/slog"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// mirror is one kind of objects: the store for writes, and the informer for reads.
type mirror[T any] struct {
	store.Store[T]
	cache *store.Informer[T]
}

func newMirror[T any](db backend.Backend, kind string, log *slog.Logger) (mirror[T], error) {
	s, err := store.Open[T](db, kind, store.Config[T]{})
	if err != nil {
		return mirror[T]{}, err
	}
	cache, err := informer.New(s, store.Key, informer.Config{Name: kind, Logger: log})
	if err != nil {
		return mirror[T]{}, err
	}
	return mirror[T]{s, cache}, nil
}

// report writes the status of o, unless the cache already shows it. It returns the previous status in the store, which
// the cache may lag behind. That equals status if it was written before, or if o was deleted in the meantime.
func report[Spec, Status comparable](
	ctx context.Context, m mirror[Resource[Spec, Status]], o store.Object[Resource[Spec, Status]], status Status,
) (was Status, err error) {
	if o.Value.Status == status {
		return status, nil
	}
	_, err = store.PatchStatus(ctx, m, o.Key, func(o *store.Object[Resource[Spec, Status]]) error {
		was, o.Value.Status = o.Value.Status, status
		return nil
	}, store.IfUID(o.UID))
	if errors.Is(err, store.ErrNotFound) {
		return status, nil
	}
	return was, err
}
