package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/internal/statustag"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// Patch reads an object, calls change to edit it, and writes it with Update. It returns the object as stored. If another writer was faster,
// Patch starts over. It makes up to 10 attempts, with pauses from a millisecond to a fifth of a second, about half a second in all. Then it
// returns an error that wraps [ErrConflict]. If change changes nothing, Patch writes nothing.
//
// Patch may call change several times, each time with a fresh object, so change must have no other effects. Patch ignores changes of Key,
// UID, and Version. If change returns an error, Patch writes nothing and returns that error unchanged.
//
// An Update leaves the status as it is. If change does nothing but set fields of the status, other than to zero, Patch returns an error that wraps
// [ErrInvalid]: use [PatchStatus].
//
// Each write checks the preconditions. If one of them can never hold again, Patch returns the conflict at once.
func Patch[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error, pre ...Precondition,
) (Object[T], error) {
	return patch(ctx, s, key, opUpdate, s.Update, change, pre)
}

// PatchStatus is [Patch] with UpdateStatus: it writes the status and ignores all other changes. If change makes only others, PatchStatus returns an
// error that wraps [ErrInvalid].
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
		if err != nil {
			return err
		}
		next := read
		seen := write[T]{op: op, kind: s.Kind(), key: key, pre: pre}
		if err = seen.admit(&read, &state[T]{Object: read}); err == nil {
			err = change(&next)
		}
		if err != nil {
			final = err
			return nil
		}
		next.Key, next.UID, next.Version = read.Key, read.UID, read.Version
		result, err = do(ctx, next, pre...)
		if err == nil && result.Version == read.Version {
			final = lost(op, &read, &next)
		}
		return err
	})
	if err = cmp.Or(final, ended.Err(ctx, err, answers)); err != nil {
		return Object[T]{}, err
	}
	return result, nil
}

// lost returns an error if op, which has written nothing, has ignored what the caller changed. A field of the status that is zero may be one that the
// caller has left out of a whole Value.
func lost[T any](op string, read, next *Object[T]) error {
	if reflect.DeepEqual(read.Value, next.Value) {
		return nil // the usual case, which must be cheap
	}
	status, err := statustag.Of(reflect.TypeFor[T]())
	if err != nil || status == nil {
		return err
	}
	fail := func(what, use string) error {
		return failed(op, read.Kind, read.Key, fmt.Errorf("%w: %s changed, which %s does not write: use %s", ErrInvalid, what, op, use))
	}
	old, now := reflect.ValueOf(&read.Value).Elem(), reflect.ValueOf(&next.Value).Elem()
	if op == opUpdate {
		for _, at := range status {
			if f := now.FieldByIndex(at); !f.IsZero() && !reflect.DeepEqual(old.FieldByIndex(at).Interface(), f.Interface()) {
				return fail(fmt.Sprintf("only the status (%s)", old.Type().FieldByIndex(at).Name), "PatchStatus")
			}
		}
		return nil
	}
	rest := next.Value
	if status.Set(reflect.ValueOf(&rest), reflect.ValueOf(&read.Value)); !reflect.DeepEqual(read.Value, rest) {
		return fail("only what is not status", "Patch")
	}
	return nil
}

// patchBackoff spreads out concurrent writers of one object. A read and a write take less than the first pause, and the jitter of each
// pause is as long as the pause.
func patchBackoff() wait.Backoff {
	return wait.Backoff{Duration: time.Millisecond, Factor: 2, Jitter: 1, Steps: 10, Cap: 100 * time.Millisecond}
}

// CreateOrUpdate lets change edit the object under key and updates it, or lets change fill in an empty object with that key
// and creates it. It returns the object as stored. If change changes nothing, nothing is written.
//
// CreateOrUpdate may call change several times, each time with a fresh object. If the object does not exist yet, its UID is empty. Changes
// of Key, UID, and Version are ignored. An Update leaves the status as it is; a Create stores it. If change returns an error,
// CreateOrUpdate writes nothing and returns that error unchanged. A change of nothing but the status is an error, as in [Patch].
//
// CreateOrUpdate takes no preconditions, because none fits both a creation and an update. Each write carries the fence of ctx. If the
// outcome is unknown, call CreateOrUpdate again.
func CreateOrUpdate[T any](
	ctx context.Context, s Store[T], key string, change func(*Object[T]) error,
) (result Object[T], err error) {
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
