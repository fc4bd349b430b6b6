package store

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store/internal/plain"
	"github.com/setpoint-go/setpoint/wait"
)

// Patch reads an object, calls change to edit it, and writes it with Update. It returns the object as stored. If another writer was faster,
// Patch starts over. It makes up to 10 attempts, with pauses from a millisecond to a fifth of a second, about half a second in all. Then it
// returns an error that wraps [ErrConflict]. If change changes nothing, Patch writes nothing.
//
// Patch may call change several times, each time with a fresh object, so change must have no other effects. Patch ignores changes of Key,
// UID, and Version. If change returns an error, Patch writes nothing and returns that error unchanged.
//
// Each write checks the preconditions. If one of them can never hold again, Patch returns the conflict at once. With the [RequestID]
// of an accepted write, Patch applies nothing and returns the current object, or its last state; it may still call change.
func Patch[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error, pre ...Precondition,
) (Object[T], error) {
	return patch(ctx, s, key, opUpdate, s.Update, change, pre)
}

// PatchStatus is [Patch] with UpdateStatus: it writes the status and ignores all other changes.
func PatchStatus[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error, pre ...Precondition,
) (Object[T], error) {
	return patch(ctx, s, key, opUpdateStatus, s.UpdateStatus, change, pre)
}

func patch[T any](
	ctx context.Context, s Store[T], key, op string,
	do func(context.Context, Object[T], ...Precondition) (Object[T], error),
	change func(*Object[T]) error, pre []Precondition,
) (Object[T], error) {
	var (
		result Object[T]
		final  error // ends the retries
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
	if err = cmp.Or(final, ended.Err(ctx, err, answers)); err != nil {
		return Object[T]{}, err
	}
	return result, nil
}

// repeated returns the result of a write with the same RequestID that was accepted before. If there is none, it returns the error
// otherwise. It sends the write with version 0, which no object has, so that the write is never applied.
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

// patchBackoff spreads out concurrent writers of one object. A read and a write take less than the first pause, and the jitter of each
// pause is as long as the pause.
func patchBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: 100 * time.Millisecond}
}

// CreateOrUpdate lets change edit the object under key and updates it, or lets change fill in an empty object with that key
// and creates it. It returns the object as stored. If change changes nothing, nothing is written.
//
// Seen saves a read. It is an informer of s, or any other cache of its objects, and it may be stale or nil:
//
//   - If seen has the object, change gets a copy of it, and the Update names the version of that copy.
//   - If seen does not have the object, change gets an empty one, and CreateOrUpdate calls Create.
//   - CreateOrUpdate does what [Patch] does if seen is nil, if change returns an error, or if a value is not plain data (see [Memory])
//     and so cannot be copied. It also does that if the store rejects the write with [ErrConflict], [ErrNotFound], [ErrExists], or
//     [ErrInvalid]. That is, it reads the object from the store, lets change edit it, and writes it.
//
// So a decision on a stale object is never written and never returned as an error. CreateOrUpdate may call change several times, each time
// with a different copy of the object. If the object does not exist yet, its UID is empty. Changes of Key, UID, and Version are ignored.
// An Update leaves the status as it is; a Create stores it. If change returns an error for an object that was read from the store,
// CreateOrUpdate writes nothing and returns that error unchanged.
//
// CreateOrUpdate takes no preconditions, because none fits both a creation and an update. Each write carries the fence of ctx. If the
// outcome is unknown, call CreateOrUpdate again.
func CreateOrUpdate[T any](
	ctx context.Context, s Store[T], seen cache.Reader[string, Object[T]], key string, change func(*Object[T]) error,
) (result Object[T], err error) {
	if seen != nil {
		if result, done, err := writeSeen(ctx, s, seen, key, change); done {
			return result, err
		}
	}
	var final error // ends the retries
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
	if err = cmp.Or(final, ended.Err(ctx, err, answers)); err != nil {
		return Object[T]{}, err
	}
	return result, nil
}

// writeSeen is the attempt of [CreateOrUpdate] with the cached object. It returns false if the object must be read from the store.
func writeSeen[T any](
	ctx context.Context, s Store[T], seen cache.Reader[string, Object[T]], key string, change func(*Object[T]) error,
) (result Object[T], done bool, err error) {
	cached, ok := seen.Get(key)
	next := Object[T]{Key: key}
	if ok {
		values, ok := plain.Of[T]()
		if !ok {
			return result, false, nil
		}
		next = cached
		next.deepenEnvelope()
		next.Value = values.Copy(&cached.Value)
	}
	if err := change(&next); err != nil {
		return result, false, nil
	}
	next.Key, next.UID, next.Version = key, cached.UID, cached.Version
	if ok {
		result, err = s.Update(ctx, next)
	} else {
		result, err = s.Create(ctx, next)
	}
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, ErrInvalid) {
		return result, false, nil
	}
	return result, true, err
}
