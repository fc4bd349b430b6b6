package leasetest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

var contextCases = []testCase{
	{"a call with an ended context does nothing and returns no definite error", func(t testing.TB, b Backend) {
		ctx, cancel := context.WithCancelCause(context.Background())
		// An errgroup ends its context with the first error of a member, which may be the answer of a store to another call.
		cancel(errors.Join(leaderelect.ErrNotFound, leaderelect.ErrConflict))
		doesNothing(ctx, t, b.Store)
	}},

	{"a call with an ended context returns why it has ended", func(t testing.TB, b Backend) {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("leasetest: the caller stops"))
		doesNothing(ctx, t, b.Store)
	}},

	{"a call whose context ends meanwhile has its whole effect or none, and returns no definite error", func(t testing.TB, b Backend) {
		s := b.Store
		begin := time.Now()
		update(t, s, create(t, s, entry("a")), "b")
		took := time.Since(begin) / 2 // of a call
		for i := range 20 {
			end := context.WithTimeout
			if i%2 == 1 {
				end = withCancelAfter
			}
			// Each call has a key of its own, because a write without a reply may still arrive.
			have := create(t, s, leaderelect.Entry{Key: "update " + strconv.Itoa(i), Value: []byte("a"), Term: 1})
			next := have
			next.Value, next.Term = []byte("b"), 2
			ctx, cancel := end(context.Background(), took*time.Duration(i)/10)
			got, err := s.Update(ctx, next)
			cancel()
			if err != nil {
				vague(t, "Update whose context ends meanwhile", err)
				got = oldOrNew(t, s, have, next)
			}
			if got.Version != have.Version {
				stored(t, "Update whose context ends meanwhile", got, next)
			}

			next = leaderelect.Entry{Key: "create " + strconv.Itoa(i), Value: []byte("a"), Term: 1}
			ctx, cancel = end(context.Background(), took*time.Duration(i)/10)
			got, err = s.Create(ctx, next)
			cancel()
			if err != nil {
				vague(t, "Create whose context ends meanwhile", err)
				if got, err = s.Get(context.Background(), next.Key); errors.Is(err, leaderelect.ErrNotFound) {
					continue
				}
				if err != nil {
					t.Fatalf("Get after a Create whose context has ended meanwhile: %v", err)
				}
			}
			stored(t, "Create whose context ends meanwhile", got, next)
		}
	}},

	{"a call after its deadline does nothing and returns no definite error", func(t testing.TB, b Backend) {
		ctx, cancel := context.WithDeadlineCause(context.Background(), time.Now().Add(-time.Second), leaderelect.ErrConflict)
		defer cancel()
		doesNothing(ctx, t, b.Store)
	}},
}

// doesNothing requires that no call with ctx, which has ended, has an effect or a definite error.
func doesNothing(ctx context.Context, t testing.TB, s leaderelect.LeaseStore) {
	t.Helper()
	refuses := func(call string, err error) {
		t.Helper()
		switch {
		case err == nil:
			t.Fatalf("%s with a context that has ended succeeds", call)
		case errors.Is(err, leaderelect.ErrNotFound), errors.Is(err, leaderelect.ErrConflict):
			t.Fatalf("%s with a context that has ended returns a definite error: %v", call, err)
		case !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)):
			t.Fatalf("%s with a context that has ended returns %v, want %v or its cause", call, err, ctx.Err())
		}
		usable(t, call+" with a context that has ended", err)
	}
	_, err := s.Get(ctx, key)
	refuses("Get of a missing record", err)
	_, err = s.Create(ctx, entry("a"))
	refuses("Create", err)
	absent(t, s, key)
	_, err = s.Update(ctx, entry("a"))
	refuses("Update of a missing record", err)
	absent(t, s, key)

	have := create(t, s, entry("a"))
	_, err = s.Get(ctx, key)
	refuses("Get", err)
	_, err = s.Create(ctx, entry("b"))
	refuses("Create of an existing record", err)
	next := have
	next.Value = []byte("b")
	_, err = s.Update(ctx, next)
	refuses("Update", err)
	next.Version = "no version"
	_, err = s.Update(ctx, next)
	refuses("Update of another version", err)
	holds(t, s, have)
}
