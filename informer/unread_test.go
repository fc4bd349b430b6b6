package informer_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
)

// halfRead is a source of numbers, in two pages, of which it cannot read some.
type halfRead struct{}

func (halfRead) List(ctx context.Context) (informer.List[int], error) {
	return informer.Collect(halfRead{}.ListPages(ctx))
}

func (halfRead) ListPages(context.Context) iter.Seq2[informer.List[int], error] {
	return func(yield func(informer.List[int], error) bool) {
		_ = yield(informer.List[int]{Version: 3, Items: []int{1, 2}, Unread: []int{3}}, nil) &&
			yield(informer.List[int]{Version: 3, Items: []int{4}, Unread: []int{5}}, nil)
	}
}

func (halfRead) Watch(context.Context, informer.Version) iter.Seq2[informer.Event[int], error] {
	return nil
}

func TestDerivedSourcesPassUnreadKeysOn(t *testing.T) {
	for name, src := range map[string]informer.ListWatcher[int]{
		"itself": halfRead{},
		"filter": informer.Filter[int](halfRead{}, func(int) bool { return true }),
		"map":    informer.Map[int, int](halfRead{}, func(n int) int { return n }),
	} {
		l, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[int]{Version: 3, Items: []int{1, 2, 4}, Unread: []int{3, 5}}, l, name)
	}
	none := informer.Filter[int](halfRead{}, func(int) bool { return false })
	l, err := none.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{3, 5}, l.Unread, "it is unknown whether they pass")
}

func TestCollectDoesNotWriteToPages(t *testing.T) {
	room := []int{1, 2, 99}
	l, err := informer.Collect(func(yield func(informer.List[int], error) bool) {
		_ = yield(informer.List[int]{Items: room[:2]}, nil) && yield(informer.List[int]{Items: []int{3}}, nil)
	})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, l.Items)
	assert.Equal(t, []int{1, 2, 99}, room)
}
