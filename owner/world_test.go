package owner_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// lagging is a source of objects of a store that reports each change only when it is allowed to: what reads it lags behind
// the store by as much as a test likes. To be used in a bubble of testing/synctest.
type lagging[T any] struct {
	store.Store[T]
	allow chan struct{} // takes a token for each event that may be reported
}

func lag[T any](s store.Store[T]) *lagging[T] { return &lagging[T]{s, make(chan struct{})} }

func (l *lagging[T]) Watch(
	ctx context.Context, after informer.Version,
) iter.Seq2[informer.Event[store.Object[T]], error] {
	return func(yield func(informer.Event[store.Object[T]], error) bool) {
		for ev, err := range l.Store.Watch(ctx, after) {
			if err == nil && ev.Type != informer.Bookmark {
				select {
				case <-l.allow:
				case <-ctx.Done():
					yield(ev, context.Cause(ctx))
					return
				}
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// deliver lets one change through, and says whether there was one. When it returns, the cache and the handlers have it.
func (l *lagging[T]) deliver() bool {
	synctest.Wait()
	select {
	case l.allow <- struct{}{}:
		synctest.Wait()
		return true
	default:
		return false
	}
}

// catchUp lets all changes through.
func (l *lagging[T]) catchUp() {
	for l.deliver() {
	}
}

// mirror runs an informer of src until the end of the test, and waits until it has synced.
func mirror[T any](t *testing.T, src informer.ListWatcher[store.Object[T]]) *store.Informer[T] {
	inf := must(informer.New(src, store.Key, informer.Config{}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	// Mirrors the source. It ends with the test, which waits for it.
	go func() { ended <- inf.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.NoError(t, informer.WaitForSync(ctx, inf))
	synctest.Wait()
	return inf
}
