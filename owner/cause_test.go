package owner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// endsFirst is a store whose writes end the context of the caller before they begin.
type endsFirst struct {
	store.Store[Replica]
	end func()
}

func (s *endsFirst) Update(ctx context.Context, o store.Object[Replica], pre ...store.Precondition) (store.Object[Replica], error) {
	s.end()
	return s.Store.Update(ctx, o, pre...)
}

func (s *endsFirst) Delete(ctx context.Context, key string, pre ...store.Precondition) (store.Object[Replica], error) {
	s.end()
	return s.Store.Delete(ctx, key, pre...)
}

// A Manager, and an errgroup, end their contexts with the first error of a part. Here a store has answered this part that an object does not
// exist. That says nothing about the objects of the other parts.
func TestContextThatEndsWithNotFound(t *testing.T) {
	f := newFixture(t)
	cause := errOf(f.apps.Get(t.Context(), "elsewhere"))
	require.ErrorIs(t, cause, store.ErrNotFound)
	app := f.app("web")
	child := f.replica("a", &app)
	f.app("dying")
	require.NoError(t, owner.Delete(t.Context(), f.apps, "dying", owner.Orphan))
	replicas := &endsFirst{Store: f.replicas}
	seen := must(informer.New(f.replicas, store.Key, informer.Config{}))
	children := owner.NewChildren[Replica](replicas, seen)
	steps := must(seen.Steps(t.Context()))
	t.Cleanup(steps.Stop)
	require.True(t, steps.Read(t.Context()))
	require.True(t, steps.Apply())
	nothing := func(context.Context, store.Object[App]) error { return nil }
	finalizer := owner.Finalizer[App]{Name: "dns", Apply: nothing, Cleanup: nothing}

	for name, call := range map[string]func(ctx context.Context, end func()) error{
		"Finalizer": func(ctx context.Context, end func()) error {
			end()
			_, _, err := finalizer.Reconcile(ctx, f.apps, "web")
			return err
		},
		"Collect": func(ctx context.Context, end func()) error {
			end()
			_, err := children.Collect(ctx, "a", owner.In(f.apps))
			return err
		},
		"Cascade": func(ctx context.Context, end func()) error {
			end()
			_, err := owner.Cascade(ctx, f.apps, "dying", children)
			return err
		},
		"Apply": func(ctx context.Context, end func()) error {
			replicas.end = end
			_, err := children.Apply(ctx, app.Ref(), nil)
			return err
		},
		"Claim": func(ctx context.Context, end func()) error {
			replicas.end = end
			_, err := children.Claim(ctx, app.Ref(), owner.In(f.apps), func(store.Object[Replica]) bool { return false })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			require.ErrorIs(t, call(ctx, func() { end(cause) }), context.Canceled, "it has not done what it was called for")
			assert.True(t, f.has(child))
		})
	}
}
