package controller_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tellTale is a source whose watch does what a test says.
type tellTale struct {
	*source
	watch func(ctx context.Context, yield func(informer.Event[object], error) bool)
}

func (s *tellTale) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[object], error] {
	return func(yield func(informer.Event[object], error) bool) { s.watch(ctx, yield) }
}

// promising is a tellTale that promises a bookmark every ten seconds.
type promising struct{ *tellTale }

func (promising) BookmarkPeriod() time.Duration { return 10 * time.Second }

// bookmarking is a source that promises a bookmark every second, and sends none.
type bookmarking struct{ *source }

func (bookmarking) BookmarkPeriod() time.Duration { return time.Second }

// idle is a watch of a source that is connected and has nothing to say.
func idle(ctx context.Context, yield func(informer.Event[object], error) bool) {
	<-ctx.Done()
	yield(informer.Event[object]{}, context.Cause(ctx))
}

// watchedBy returns a controller that runs and watches src.
func watchedBy(t *testing.T, src informer.ListWatcher[object], silentAfter time.Duration) *controller.Controller[string] {
	inf := must(informer.New(src, keyOf, informer.Config{Name: "things", OnError: func(error) {}}))
	looptest.Start(t, inf.Run)
	c, _ := newController(t, controller.Config[string]{SilentAfter: silentAfter}, noop, controller.For(inf))
	looptest.Start(t, c.Run)
	synctest.Wait()
	return c
}

func TestIdleConnectedSourceIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchedBy(t, &tellTale{newSource(), idle}, time.Minute)
		for range 100 {
			time.Sleep(time.Minute)
			require.NoError(t, c.Check())
		}
	})
}

func TestReconnectingIdleWatchIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchedBy(t, &tellTale{newSource(), func(_ context.Context, yield func(informer.Event[object], error) bool) {
			time.Sleep(time.Hour)
			yield(informer.Event[object]{}, errBoom)
		}}, time.Minute)
		for range 7200 {
			time.Sleep(time.Second)
			require.NoError(t, c.Check())
		}
	})
}

func TestUnreachableSourceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchedBy(t, &tellTale{newSource(), func(_ context.Context, yield func(informer.Event[object], error) bool) {
			yield(informer.Event[object]{}, errBoom)
		}}, time.Minute)
		time.Sleep(time.Minute)
		require.NoError(t, c.Check())
		time.Sleep(time.Second)
		require.ErrorIs(t, c.Check(), controller.ErrSilent)
		require.EqualError(t, c.Check(), `controller: check "test": things: the source is silent: 1m0s have passed`)
	})
}

func TestSourceWithoutPromisedBookmarksIsSilent(t *testing.T) {
	for _, wrap := range []func(informer.ListWatcher[object]) informer.ListWatcher[object]{
		func(src informer.ListWatcher[object]) informer.ListWatcher[object] { return src },
		func(src informer.ListWatcher[object]) informer.ListWatcher[object] {
			return informer.Filter(src, func(object) bool { return true })
		},
		func(src informer.ListWatcher[object]) informer.ListWatcher[object] {
			return informer.Map(src, func(o object) object { return o })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := watchedBy(t, wrap(promising{&tellTale{newSource(), func(ctx context.Context, yield func(informer.Event[object], error) bool) {
				for range 30 {
					time.Sleep(10 * time.Second)
					yield(informer.Event[object]{Type: informer.Bookmark}, nil)
				}
				idle(ctx, yield) // the connection is dead, without a sign
			}}}), time.Second)
			for range 300 + 20 {
				time.Sleep(time.Second)
				require.NoError(t, c.Check(), "it gets twice its promised interval")
			}
			time.Sleep(time.Second)
			require.ErrorIs(t, c.Check(), controller.ErrSilent)
		})
	}
}

func TestFailingPollerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		src := must(poll.New(func(context.Context) ([]object, error) {
			if fail.Load() {
				return nil, errBoom
			}
			return nil, nil
		}, keyOf, poll.Config[object]{Interval: 10 * time.Second, OnError: func(error) {}}))
		c := watchedBy(t, src, time.Minute)
		time.Sleep(time.Hour)
		require.NoError(t, c.Check(), "each poll without changes counts as heard")
		fail.Store(true)
		time.Sleep(2 * time.Minute)
		assert.ErrorIs(t, c.Check(), controller.ErrSilent)
	})
}
