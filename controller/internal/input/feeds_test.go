package input_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
)

// none is no informers beside those of the feeds.
var none []input.Informer

// newFeeds returns the informer of w, which runs until the test ends, with two feeds of it.
func newFeeds(t *testing.T, w *world) *input.Feeds[string] {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		assert.NoError(t, w.inf.Run(ctx))
	}()
	t.Cleanup(func() { cancel(); <-ended })
	var mu sync.Mutex // two handlers add keys
	add := w.origin.To.Add
	w.origin.To.Add = func(key string, a input.Addition) {
		mu.Lock()
		defer mu.Unlock()
		add(key, a)
	}
	return input.NewFeeds([]*input.Feed[string]{
		input.Own(w.origin, input.Rules[object]{}, w.inf),
		input.Pointing(w.origin, input.Rules[object]{}, w.inf, owner),
	}, []input.Informer{w.inf})
}

// present returns the keys that Present adds.
func present(fs *input.Feeds[string]) (keys []string) {
	fs.Present(func(key string) { keys = append(keys, key) })
	slices.Sort(keys)
	return keys
}

func TestFeedsStartAndStopTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", "x"})
		fs := newFeeds(t, w)
		assert.Equal(t, []input.Informer{w.inf}, fs.Informers(), "once")
		for range 2 {
			assert.False(t, fs.Started())
			assert.False(t, fs.Synced())
			assert.Empty(t, present(fs))
			beside := make(chan string, 2)
			syncers, stop, err := fs.Start(t.Context(), func(ctx context.Context, syncers []informer.Syncer) {
				beside <- fmt.Sprint(len(syncers))
				<-ctx.Done()
				time.Sleep(time.Second)
				beside <- "ended"
			})
			require.NoError(t, err)
			assert.Len(t, syncers, 3, "the informer and two handlers")
			synctest.Wait()
			assert.True(t, fs.Started())
			assert.True(t, fs.Synced())
			assert.Equal(t, "3", <-beside)
			assert.Equal(t, []string{"a", "x"}, present(fs))
			require.NoError(t, fs.CheckInvariants())
			stop()
			assert.Len(t, beside, 1, "the stop has waited for it")
			assert.Equal(t, "ended", <-beside)
			w.take()
			w.source.Put(object{"a", "x"})
			assert.Empty(t, w.take(), "the handlers are removed")
		}
	})
}

func TestFeedsSyncAfterTheirInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fs := input.NewFeeds([]*input.Feed[string]{input.Own(w.origin, input.Rules[object]{}, w.inf)}, none)
		_, stop, err := fs.Start(t.Context(), nil)
		defer stop()
		require.NoError(t, err)
		synctest.Wait()
		assert.True(t, fs.Started())
		assert.False(t, fs.Synced())
	})
}

func TestStopWaitsForReadersOfPresentObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", ""})
		w.source.Put(object{"b", ""})
		fs := newFeeds(t, w)
		_, stop, err := fs.Start(t.Context(), nil)
		require.NoError(t, err)
		synctest.Wait()
		var added []string
		began := make(chan struct{})
		go func() {
			fs.Present(func(key string) {
				if added == nil {
					close(began)
				}
				time.Sleep(time.Second)
				added = append(added, key)
			})
		}()
		<-began
		stop()
		assert.Len(t, added, 1, "the stop has waited for the key that was being added, and the second one was left out")
	})
}

func TestStartWithEndedInformerLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ended := newWorld(t), newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, ended.inf.Run(ctx))
		fs := input.NewFeeds([]*input.Feed[string]{
			input.Own(w.origin, input.Rules[object]{}, w.inf), input.Own(ended.origin, input.Rules[object]{}, ended.inf),
		}, none)
		_, stop, err := fs.Start(t.Context(), nil)
		require.ErrorIs(t, err, informer.ErrEnded)
		assert.Contains(t, err.Error(), "watch things: ")
		assert.False(t, fs.Started())
		assert.Nil(t, stop)
		assert.Zero(t, w.inf.Stats().Handlers, "the handler that had been added is removed")
	})
}

func TestWaitMappedWaitsForNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.source.Put(object{"a", ""})
		fs := newFeeds(t, w)
		waited := make(chan error, 1)
		go func() { waited <- fs.WaitMapped(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, waited)
		_, stop, err := fs.Start(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, <-waited)
		require.NoError(t, fs.CheckInvariants())
		assert.NotEmpty(t, w.added)
		stop()

		why := fmt.Errorf("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		require.ErrorIs(t, fs.WaitMapped(ctx), why)
		require.NoError(t, input.NewFeeds[string](nil, none).WaitMapped(ctx), "there is nothing to wait for")
	})
}

// The context of a mapper has the values of the context of Start. It ends when the feed stops.
func TestMapperContextEndsWithFeed(t *testing.T) {
	type valueKey struct{}
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("called again: %v", again), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.source.Put(object{"a", "x"})
				calls := 0
				f := input.Mapped(w.origin, input.Rules[object]{}, w.inf, func(ctx context.Context, _ object) ([]string, error) {
					if calls++; again && calls == 1 {
						return nil, errBoom
					}
					assert.Equal(t, "value", ctx.Value(valueKey{}))
					select {
					case <-ctx.Done():
					case <-time.After(time.Hour):
						t.Error("the context of the mapper does not end")
					}
					return nil, context.Cause(ctx)
				})
				go func() { assert.NoError(t, w.inf.Run(t.Context())) }()
				fs := input.NewFeeds([]*input.Feed[string]{f}, none)
				_, stop, err := fs.Start(context.WithValue(t.Context(), valueKey{}, "value"), nil)
				require.NoError(t, err)
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Positive(t, calls)
				stop()
				assert.Equal(t, 1, fs.Unmapped())
			})
		})
	}
}
