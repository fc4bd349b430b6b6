package store

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/retry"
)

// CreateOrUpdate lets change change the object under key, as [Patch] does, or an empty one with that key, which is then
// created. It returns the object as stored. When change has changed nothing, nothing is written.
//
// Change may be called several times, each time with a fresh object: Object.UID is empty for one that is to be created. An
// Update leaves the status as it is; a Create stores it. When change returns an error, nothing is written, nothing is tried
// again, and CreateOrUpdate returns that error as it is.
//
// It takes no preconditions: what holds for a creation does not for an update. The fence of ctx goes with each write. If
// the outcome is unknown, call it again.
func CreateOrUpdate[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error,
) (result Object[T], err error) {
	var final error // what no further attempt can mend
	raced := func(err error) bool { return errors.Is(err, ErrExists) || errors.Is(err, ErrNotFound) }
	err = retry.OnError(ctx, patchBackoff(), raced, func(ctx context.Context) error {
		var changeErr error
		guarded := func(o *Object[T]) error {
			changeErr = change(o)
			return changeErr
		}
		result, err = Patch(ctx, s, key, guarded)
		if errors.Is(err, ErrNotFound) && changeErr == nil {
			o := Object[T]{Key: key}
			if err = guarded(&o); err == nil {
				o.Key = key
				result, err = s.Create(ctx, o)
			}
		}
		if changeErr != nil {
			final = changeErr
			return nil
		}
		return err
	})
	if final != nil {
		err = final
	}
	if err != nil {
		return Object[T]{}, err
	}
	return result, nil
}
