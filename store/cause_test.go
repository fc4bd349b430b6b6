package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

var errElsewhere = errors.New("elsewhere")

// answers are the errors that a store answers a call with.
func answers() []error {
	return []error{
		store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrFenced, store.ErrInvalid, store.ErrDecode, informer.ErrExpired,
	}
}

// isAnswer reports whether err says that a store has answered.
func isAnswer(err error) bool {
	for _, answer := range answers() {
		if errors.Is(err, answer) {
			return true
		}
	}
	return retry.IsConflict(err)
}

// An errgroup ends its context with the first error of a member, which may be the answer of a store to another call.
func TestCauseOfContextIsNotTheAnswer(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	o := create(t, apps, "web")
	calls := map[string]func(ctx context.Context) error{
		"Get":    func(ctx context.Context) error { return errOf(apps.Get(ctx, "web")) },
		"List":   func(ctx context.Context) error { _, err := apps.List(ctx); return err },
		"Create": func(ctx context.Context) error { return errOf(apps.Create(ctx, object{Key: "new"})) },
		"Update": func(ctx context.Context) error { return errOf(apps.Update(ctx, o)) },
		"Delete": func(ctx context.Context) error { return errOf(apps.Delete(ctx, "web")) },
		"Patch": func(ctx context.Context) error {
			return errOf(store.Patch(ctx, apps, "web", func(*object) error { return nil }))
		},
		"CreateOrUpdate": func(ctx context.Context) error {
			return errOf(store.CreateOrUpdate(ctx, apps, "web", func(*object) error { return nil }))
		},
	}
	other := &store.Error{Op: "get", Kind: "other", Key: "x", Err: store.ErrConflict}
	causes := append(answers(), other, fmt.Errorf("part: %w", store.ErrNotFound), errors.Join(errElsewhere, other))
	for name, call := range calls {
		for _, cause := range causes {
			t.Run(fmt.Sprintf("%s: %v", name, cause), func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				end(cause)
				err := call(ctx)
				require.Error(t, err)
				assert.False(t, isAnswer(err), "the store has not answered: %v", err)
				require.ErrorIs(t, err, context.Canceled)
				assert.ErrorContains(t, err, cause.Error())
				if errors.Is(cause, errElsewhere) {
					assert.ErrorIs(t, err, errElsewhere)
				}
			})
		}
	}
	assert.Zero(t, apps.Stats().Fenced)
}

func TestPatchThatWaitsReturnsCauseThatIsNotTheAnswer(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	create(t, apps, "web")
	ctx, end := context.WithCancelCause(t.Context())
	_, err := store.Patch(ctx, apps, "web", func(o *object) error {
		scale(t, apps, "web", o.Value.Replicas+1)
		o.Value.Replicas = 100
		end(fmt.Errorf("part: %w", store.ErrNotFound))
		return nil
	})
	require.Error(t, err)
	assert.NotErrorIs(t, err, store.ErrNotFound, "the object is there")
}
