package owner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// vanishing is a store in which another writer deletes a child right after its update was rejected.
type vanishing struct{ store.Store[Replica] }

func (s vanishing) Update(ctx context.Context, o store.Object[Replica], pre ...store.Precondition) (store.Object[Replica], error) {
	stored, err := s.Store.Update(ctx, o, pre...)
	if err != nil {
		_, _ = s.Delete(ctx, o.Key)
	}
	return stored, err
}

func TestReleaseIgnoresChildDeletedBeforeReread(t *testing.T) {
	f := newFixture(t)
	web := f.app("web")
	child := f.child("a", "x", &web)
	changed := child
	changed.Value.Machine = "y"
	require.NoError(t, errOf(f.replicas.Update(t.Context(), changed)))
	none := func(store.Object[Replica]) bool { return false }
	mine, err := f.stale(vanishing{f.replicas}, child).Claim(t.Context(), web.Ref(), owner.In(f.apps), none)
	require.NoError(t, err)
	assert.Empty(t, mine)
	assert.False(t, f.has(child))
}
