package leasetest

import (
	"context"
	"errors"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
)

var contextCases = []testCase{
	{"a call with an ended context does nothing and returns no definite error", func(t testing.TB, b Backend) {
		s := b.Store
		ctx, cancel := context.WithCancelCause(context.Background())
		// An errgroup ends its context with the first error of a member, which may be the answer of a store to another call.
		cancel(errors.Join(leaderelect.ErrNotFound, leaderelect.ErrConflict))
		refuses := func(call string, err error) {
			t.Helper()
			switch {
			case err == nil:
				t.Fatalf("%s with a context that has ended succeeds", call)
			case errors.Is(err, leaderelect.ErrNotFound), errors.Is(err, leaderelect.ErrConflict):
				t.Fatalf("%s with a context that has ended returns a definite error: %v", call, err)
			}
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
	}},
}
