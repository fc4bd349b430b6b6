package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

var _ informer.ListWatcher[pair] = (*informertest.Source[string, pair])(nil)

type pair struct{ name, value string }

func newSource() *informertest.Source[string, pair] {
	return informertest.NewSource(func(p pair) string { return p.name })
}

// watch collects what a watch yields until its context ends.
type watch struct {
	mu   sync.Mutex
	got  []string
	done bool
}

func start(ctx context.Context, src *informertest.Source[string, pair], after informer.Version) *watch {
	w := &watch{}
	go func() { // ends with ctx, or when the watch does; the bubble waits for it
		for ev, err := range src.Watch(ctx, after) {
			w.add(fmt.Sprint(ev.Version, " ", ev.Type, " ", ev.Object.name, ev.Object.value), err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = true
	}()
	return w
}

func (w *watch) add(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		what = err.Error()
	}
	w.got = append(w.got, what)
}

// take returns what came since the last take, and whether the watch is open.
func (w *watch) take() (got []string, open bool) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got, w.got = w.got, nil
	return got, !w.done
}

func TestListIsInInsertionOrder(t *testing.T) {
	src := newSource()
	assert.Equal(t, informer.Version(1), src.Put(pair{"b", "1"}))
	assert.Equal(t, informer.Version(2), src.Put(pair{"a", "2"}))
	assert.Equal(t, informer.Version(3), src.Put(pair{"c", "3"}))
	assert.Equal(t, informer.Version(4), src.Put(pair{"b", "4"}))
	assert.Equal(t, informer.Version(5), src.Delete("a"))
	assert.Equal(t, informer.Version(5), src.Delete("a"))
	assert.Equal(t, informer.Version(6), src.Put(pair{"a", "6"}))
	assert.Equal(t, informer.Version(7), src.Bookmark())
	list, err := src.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, informer.List[pair]{Items: []pair{{"b", "4"}, {"c", "3"}, {"a", "6"}}, Version: 7}, list)
	assert.Equal(t, informer.Version(7), src.Version())
	assert.Equal(t, "b", src.Key(pair{name: "b"}))
}

func TestWatchYieldsEachChangeAfterItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		src.Put(pair{"a", "2"})
		w := start(t.Context(), src, 1)
		got, open := w.take()
		assert.Equal(t, []string{"2 Modified a2"}, got)
		assert.True(t, open)
		src.Delete("a")
		src.Put(pair{"a", "3"})
		src.Bookmark()
		got, _ = w.take()
		assert.Equal(t, []string{"3 Deleted a2", "4 Added a3", "5 Bookmark "}, got)
	})
}

func TestBreakEndsOnlyOpenWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		one, two := start(t.Context(), src, 0), start(t.Context(), src, 0)
		synctest.Wait()
		src.Break(errors.New("reset by peer"))
		src.Put(pair{"a", "1"})
		for _, w := range []*watch{one, two} {
			got, open := w.take()
			assert.Equal(t, []string{"reset by peer"}, got)
			assert.False(t, open)
		}
		next := start(t.Context(), src, 0)
		got, _ := next.take()
		assert.Equal(t, []string{"1 Added a1"}, got)
		src.Break(nil)
		got, open := next.take()
		assert.Empty(t, got)
		assert.False(t, open)
	})
}

func TestFailFailsCallsUntilCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		w := start(t.Context(), src, 0)
		synctest.Wait()
		down := errors.New("no route to host")
		src.Fail(down)
		src.Put(pair{"a", "1"})
		got, open := w.take()
		assert.Equal(t, []string{"no route to host"}, got)
		assert.False(t, open)
		got, _ = start(t.Context(), src, 0).take()
		assert.Equal(t, []string{"no route to host"}, got)
		_, err := src.List(t.Context())
		assert.Equal(t, down, err)

		src.Fail(nil)
		got, open = start(t.Context(), src, 0).take()
		assert.Equal(t, []string{"1 Added a1"}, got)
		assert.True(t, open)
		_, err = src.List(t.Context())
		assert.NoError(t, err)
	})
}

func TestWatchFromUnknownVersionExpires(t *testing.T) {
	const expired = "informertest: watch: version is no longer in the history of the source"
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		w := start(t.Context(), src, 1)
		src.Put(pair{"a", "2"})
		synctest.Wait()
		src.Compact()
		src.Put(pair{"a", "3"})
		got, _ := w.take()
		assert.Equal(t, []string{"2 Modified a2", "3 Modified a3"}, got, "a watch that is not behind is not affected")
		for after, want := range []string{expired, expired, "3 Modified a3", "", expired} {
			got, _ := start(t.Context(), src, informer.Version(after)).take()
			assert.Equal(t, want, append(got, "")[0], "after %d", after)
		}
	})
}

func TestWatchAndListEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		ctx, cancel := context.WithCancelCause(t.Context())
		w := start(ctx, src, 0)
		synctest.Wait()
		cancel(errors.New("enough"))
		got, open := w.take()
		assert.Equal(t, []string{"enough"}, got)
		assert.False(t, open)
		_, err := src.List(ctx)
		assert.EqualError(t, err, "enough")
	})
}

func TestWatchMayBreak(t *testing.T) {
	src := newSource()
	src.Put(pair{"a", "1"})
	src.Put(pair{"b", "2"})
	for ev, err := range src.Watch(t.Context(), 0) {
		require.NoError(t, err)
		assert.Equal(t, pair{"a", "1"}, ev.Object)
		break
	}
}

func TestNewSourcePanicsWithoutKeyFunc(t *testing.T) {
	assert.Panics(t, func() { informertest.NewSource[string, pair](nil) })
}
