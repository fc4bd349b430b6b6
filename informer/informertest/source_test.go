package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

func TestFrozenListIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		w := start(t.Context(), src, 1)
		src.Freeze(true)
		src.Put(pair{"a", "2"})
		src.Put(pair{"b", "3"})
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"a", "1"}}, Version: 1}, list)
		got, _ := w.take()
		assert.Equal(t, []string{"2 Modified a2", "3 Added b3"}, got, "watches are correct")
		src.Freeze(false)
		list, err = src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"a", "2"}, {"b", "3"}}, Version: 3}, list)
	})
}

func TestChangesWhileMutedAreNeverReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		w := start(t.Context(), src, 0)
		src.Put(pair{"a", "1"})
		src.Mute(true)
		src.Put(pair{"a", "2"})
		src.Delete("a")
		src.Mute(false)
		src.Put(pair{"b", "4"})
		got, open := w.take()
		assert.Equal(t, []string{"1 Added a1", "4 Added b4"}, got)
		assert.True(t, open)
		got, _ = start(t.Context(), src, 2).take()
		assert.Equal(t, []string{"4 Added b4"}, got, "nor to a watch that starts during the gap")
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"b", "4"}}, Version: 4}, list)
	})
}

func TestSendDeliversEventUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		src.Put(pair{"a", "2"})
		now := start(t.Context(), src, 2)
		synctest.Wait()
		src.Send(informer.Event[pair]{Type: informer.Added, Object: pair{"a", "1"}, Version: 1})
		src.Put(pair{"a", "3"})
		got, _ := now.take()
		assert.Equal(t, []string{"1 Added a1", "3 Modified a3"}, got)
		got, _ = start(t.Context(), src, 1).take()
		assert.Equal(t, []string{"2 Modified a2", "1 Added a1", "3 Modified a3"}, got)
		got, _ = start(t.Context(), src, 2).take()
		assert.Equal(t, []string{"3 Modified a3"}, got, "a watch from its version does not receive it")
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"a", "3"}}, Version: 3}, list)
	})
}

func TestListsAndWatchesFailSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		down := errors.New("down")
		w := start(t.Context(), src, 0)
		src.FailLists(down)
		_, err := src.List(t.Context())
		assert.Equal(t, down, err)
		_, open := w.take()
		assert.True(t, open)
		src.FailLists(nil)
		src.FailWatches(down)
		got, open := w.take()
		assert.Equal(t, []string{"down"}, got)
		assert.False(t, open)
		_, err = src.List(t.Context())
		assert.NoError(t, err)
		src.FailWatches(nil)
		_, open = start(t.Context(), src, 0).take()
		assert.True(t, open)
	})
}

func TestHeldSourceLagsAndKeepsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := informertest.NewSource(func(s string) string { return s[:1] })
		src.Put("a1")
		in, err := informer.New(src, src.Key, informer.Config{OnError: func(err error) { t.Error(err) }})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- in.Run(t.Context()) }()
		synctest.Wait()
		src.Put("a2")
		src.Hold()
		src.Put("b1")
		src.Hold()
		src.Delete("a")
		synctest.Wait()
		assert.Equal(t, informer.Version(2), in.Version(), "events before Hold were yielded")
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"b1"}, list.Items, "a list shows the current state")

		src.Release()
		synctest.Wait()
		assert.Equal(t, src.Version(), in.Version())
		_, ok := in.Get("a")
		assert.False(t, ok)

		src.Hold()
		src.Put("c1")
		time.Sleep(time.Second) // a watch that is shorter, and of no use, is an error
		src.Break(nil)
		synctest.Wait()
		assert.Equal(t, informer.Version(4), in.Version(), "a new watch is held, too")
		src.Release()
		synctest.Wait()
		assert.Equal(t, informer.Version(5), in.Version())
	})
}

// A source keeps its contract while another source on the same clock changes before and after each of its changes.
func TestSourceOnSharedClockKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
		var clock informertest.Clock
		noise := informertest.NewSourceOn(&clock, func(n int) int { return n % 3 })
		src := informertest.NewSourceOn(&clock, func(p pair) string { return p.name })
		s := subject(src, src)
		put, remove := s.Put, s.Delete
		s.Put = func(name string, rev int) error {
			defer noise.Delete(rev % 3)
			noise.Put(rev)
			return put(name, rev)
		}
		s.Delete = func(name string) error {
			defer noise.Bookmark()
			noise.Put(1)
			return remove(name)
		}
		return s
	})
}

func TestInformerReachesVersionOfOtherSourceOnSharedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock informertest.Clock
		sites := informertest.NewSourceOn(&clock, func(p pair) string { return p.name })
		numbers := informertest.NewSourceOn(&clock, func(n int) int { return n / 10 })
		ctx, cancel := context.WithCancel(t.Context())
		seenSites, seenNumbers := must(informer.New(sites, sites.Key, informer.Config{})), must(informer.New(numbers, numbers.Key, informer.Config{}))
		ended := make(chan error, 2)
		go func() { ended <- seenSites.Run(ctx) }()   // ends with cancel; waited for below
		go func() { ended <- seenNumbers.Run(ctx) }() // likewise
		synctest.Wait()

		r, last := rand.New(rand.NewPCG(5, 6)), informer.Version(0)
		for n := range 200 {
			var v informer.Version
			switch r.IntN(4) {
			case 0, 1:
				v = sites.Put(pair{fmt.Sprint("s", r.IntN(4)), strconv.Itoa(n)})
			case 2:
				v = numbers.Put(n)
			default:
				v = numbers.Bookmark()
			}
			require.Equal(t, last+1, v, "one sequence, without gaps")
			last = v
			require.Equal(t, []informer.Version{v, v, v}, []informer.Version{clock.Version(), sites.Version(), numbers.Version()})
			l, err := sites.List(ctx)
			require.NoError(t, err)
			require.Equal(t, v, l.Version, "a list is current at the version of the clock")
		}
		synctest.Wait()
		assert.Equal(t, last, seenSites.Version())
		assert.Equal(t, last, seenNumbers.Version())
		assert.Equal(t, last, numbers.Delete(77), "deleting a missing object is not a change")

		sites.Hold()
		last = numbers.Put(1)
		synctest.Wait()
		assert.Equal(t, last-1, seenSites.Version(), "a lagging source does not pass the changes of others either")
		assert.Equal(t, last, seenNumbers.Version())
		sites.Release()
		synctest.Wait()
		assert.Equal(t, last, seenSites.Version())
		cancel()
		<-ended
		<-ended
	})
}

func TestSourceMayJoinRunningClock(t *testing.T) {
	var clock informertest.Clock
	old := informertest.NewSourceOn(&clock, func(n int) int { return n })
	old.Put(1)
	src := informertest.NewSourceOn(&clock, func(n int) int { return n })
	assert.EqualValues(t, 1, src.Version())
	assert.EqualValues(t, 2, src.Put(7))
	for _, after := range []informer.Version{0, 1} {
		for e, err := range src.Watch(t.Context(), after) {
			require.NoError(t, err)
			assert.Equal(t, informer.Event[int]{Type: informer.Added, Object: 7, Version: 2}, e)
			break
		}
	}
	const misuse = "informertest: NewSourceOn needs a clock and a key function"
	assert.PanicsWithValue(t, misuse, func() { informertest.NewSourceOn[int, int](nil, func(n int) int { return n }) })
	assert.PanicsWithValue(t, misuse, func() { informertest.NewSourceOn[int, int](&clock, nil) })
}
