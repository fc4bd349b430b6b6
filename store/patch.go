package store

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store/internal/plain"
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
// is returned at once. Under [RequestID], a Patch that was accepted before is not applied again, and returns the object as it is
// now, or its last state; change may be called all the same, and its result is thrown away.
func Patch[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error, pre ...Precondition,
) (Object[T], error) {
	return patch(ctx, s, key, opUpdate, s.Update, change, pre)
}

// PatchStatus is Patch with UpdateStatus: what change does to anything but the status is ignored.
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

// repeated returns what a write under RequestID returned that was accepted before, or else the error given. It sends the write
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

// CreateOrUpdate lets change edit the object under key and updates it, or lets change fill in an empty object with that key
// and creates it. It returns the object as stored. If change changes nothing, nothing is written.
//
// Seen saves a read. It is an informer of s, or any other cache of its objects, and it may be stale or nil:
//
//   - If seen has the object, change gets a copy of it, and the Update names the version of that copy.
//   - If seen does not have the object, change gets an empty one, and CreateOrUpdate calls Create.
//   - If the store refuses that write with [ErrConflict], [ErrNotFound], or [ErrExists], if change returns an error, if a value
//     is not plain data (see [Memory]) and so cannot be copied, or if seen is nil: CreateOrUpdate reads the object from the
//     store, lets change edit it, and writes it, as [Patch] does, until nobody else is faster.
//
// So what change decided on a stale object is never written, and is never returned as an error. Change may be called several
// times, each time with another object; Object.UID is empty for one that is to be created. What it does to Key, UID, and
// Version is ignored. An Update leaves the status as it is; a Create stores it. If change returns an error for an object
// that was read from the store, CreateOrUpdate writes nothing, does not try again, and returns that error as it is.
//
// It takes no preconditions: what holds for a creation does not hold for an update. The fence of ctx goes with each write. If
// the outcome is unknown, call it again.
func CreateOrUpdate[T any](
	ctx context.Context, s Store[T], seen cache.Reader[string, Object[T]], key string, change func(*Object[T]) error,
) (result Object[T], err error) {
	if seen != nil {
		if result, done, err := writeSeen(ctx, s, seen, key, change); done {
			return result, err
		}
	}
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

// writeSeen is the attempt of [CreateOrUpdate] that trusts a cache. It is not done if the object has to be read.
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
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) {
		return result, false, nil
	}
	return result, true, err
}
