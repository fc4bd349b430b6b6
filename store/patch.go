package store

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// Patch reads an object, lets change change it, and writes it; and all of it again as long as somebody else was faster:
// up to 10 times, with pauses that grow from a millisecond to a tenth of a second, about half a second in all. It returns
// the object as stored. When change has changed nothing, nothing is written.
//
// Change may be called several times, each time with a fresh object: it should do nothing but change it. What it does to
// Key, UID and Version is ignored. When it returns an error, nothing is written, nothing is tried again, and Patch returns
// that error as it is.
//
// A precondition is checked with each write. A conflict with one that can never hold again, since the object has moved on,
// is returned at once. Under [Once], a Patch that was accepted before is not applied again, and returns the object as it is
// now, or its last state; change may be called all the same, and its result is thrown away.
func Patch[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error, pre ...Precondition,
) (Object[T], error) {
	return patch(ctx, s, key, OpUpdate, s.Update, change, pre)
}

// PatchStatus is Patch with UpdateStatus: what change does to anything but the status is ignored.
func PatchStatus[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error, pre ...Precondition,
) (Object[T], error) {
	return patch(ctx, s, key, OpUpdateStatus, s.UpdateStatus, change, pre)
}

func patch[T any](
	ctx context.Context, s Store[T], key, op string,
	do func(context.Context, Object[T], ...Precondition) (Object[T], error),
	change func(*Object[T]) error, pre []Precondition,
) (Object[T], error) {
	var (
		result Object[T]
		final  error // what no further attempt can mend
	)
	err := retry.OnConflict(ctx, patchBackoff(), func(ctx context.Context) error {
		read, err := s.Get(ctx, key)
		if errors.Is(err, ErrNotFound) {
			result, final = repeated(ctx, key, do, pre, err)
			return nil
		}
		if err != nil {
			return err
		}
		next := read
		seen := write[T]{op: op, kind: s.Kind(), key: key, pre: pre}
		if err = seen.admit(&read, &state[T]{Object: read}); err == nil {
			err = change(&next)
		}
		if err != nil {
			result, final = repeated(ctx, key, do, pre, err)
			return nil
		}
		next.Key, next.UID, next.Version = read.Key, read.UID, read.Version
		result, err = do(ctx, next, pre...)
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

// repeated returns what a write under Once returned that was accepted before, or else the error given. It sends the write
// with version 0, which no object has: it can be answered, but not applied.
func repeated[T any](
	ctx context.Context, key string, do func(context.Context, Object[T], ...Precondition) (Object[T], error),
	pre []Precondition, otherwise error,
) (Object[T], error) {
	if requestOf(pre) == "" {
		return Object[T]{}, otherwise
	}
	o, err := do(ctx, Object[T]{Key: key}, pre...)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, ErrFenced) {
		err = otherwise
	}
	return o, err
}

// patchBackoff lets a crowd that writes one object come apart: a read and a write take less than the first pause, and
// each pause is drawn from a range as wide as itself.
func patchBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: 100 * time.Millisecond}
}
