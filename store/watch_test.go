package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// follow watches s in a goroutine of its own, which ends with the test, and returns what the watch has seen since the last
// call, once it waits again.
func follow(t *testing.T, s store.Store[App], after informer.Version) func() []string {
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var seen []string // guarded by mu
	done := make(chan struct{})
	go func() { // ends when cancel ends the watch; the cleanup waits for it
		defer close(done)
		for e, err := range s.Watch(ctx, after) {
			line := fmt.Sprint(e.Type, " ", e.Object.Key, " ", e.Version)
			if err != nil {
				line = err.Error()
			}
			mu.Lock()
			seen = append(seen, line)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		all := seen
		seen = nil
		return all
	}
}

// none is the output of a watch that yields nothing.
var none []string

func TestWatchOfQuietKindLearnsVersionsOfBusyKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, apps := newApps(t, store.MemoryConfig{})
		jobs := open[App](t, db, "job")
		seen := follow(t, apps, 0)
		require.Equal(t, none, seen())

		create(t, jobs, "a")
		assert.Equal(t, []string{"Bookmark  1"}, seen(), "the first foreign write is reported immediately")
		for n := range 500 {
			scale(t, jobs, "a", n+1)
		}
		assert.Equal(t, none, seen(), "the next ones wait")
		time.Sleep(100*time.Millisecond - 1)
		assert.Equal(t, none, seen(), "they wait for 100ms")
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"Bookmark  501"}, seen(), "one bookmark for all")
		time.Sleep(2 * time.Second)
		assert.Equal(t, none, seen(), "nothing happens, nothing is yielded")
		scale(t, jobs, "a", 0)
		assert.Equal(t, []string{"Bookmark  502"}, seen())
	})
}

func TestWatchReportsOwnKindImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, apps := newApps(t, store.MemoryConfig{})
		jobs := open[App](t, db, "job")
		seen := follow(t, apps, 0)
		create(t, jobs, "a")
		require.Equal(t, []string{"Bookmark  1"}, seen())
		create(t, jobs, "b")
		create(t, apps, "web")
		create(t, jobs, "c")
		assert.Equal(t, []string{"Added web 3"}, seen())
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, []string{"Bookmark  4"}, seen())
		time.Sleep(50 * time.Millisecond)
		scale(t, apps, "web", 1)
		assert.Equal(t, []string{"Modified web 5"}, seen())
		time.Sleep(2 * time.Second)
		assert.Equal(t, none, seen(), "no bookmark at the version of an event")
	})
}

func TestWatchStartingBehindGetsBookmarkImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, apps := newApps(t, store.MemoryConfig{})
		jobs := open[App](t, db, "job")
		create(t, apps, "web")
		create(t, jobs, "a")
		assert.Equal(t, []string{"Added web 1", "Bookmark  2"}, follow(t, apps, 0)())
		assert.Equal(t, []string{"Bookmark  2"}, follow(t, apps, 1)())
		assert.Equal(t, none, follow(t, apps, 2)())
	})
}

func TestWaitingWatchEndsWithContextCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, apps := newApps(t, store.MemoryConfig{})
		jobs := open[App](t, db, "job")
		cause := errors.New("enough")
		for _, busy := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var last error
			pairs := 0
			done := make(chan struct{})
			go func() { // ends when cancel ends the watch; the test waits for it
				defer close(done)
				for _, err := range apps.Watch(ctx, 0) {
					last = err
					pairs++
				}
			}()
			synctest.Wait()
			if busy { // now it waits between two bookmarks
				create(t, jobs, "a")
				synctest.Wait()
			}
			before := pairs
			start := time.Now()
			cancel(cause)
			<-done
			assert.Equal(t, cause, last, "the cause itself")
			assert.Equal(t, before+1, pairs)
			assert.Zero(t, time.Since(start))
		}
	})
}

func TestEndedContextStopsRemainingEvents(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	for n := range 5 {
		create(t, apps, fmt.Sprint(n))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pairs := 0
	for _, err := range apps.Watch(ctx, 0) {
		if pairs++; pairs == 2 {
			cancel()
		}
		if pairs == 3 {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	assert.Equal(t, 3, pairs)
}

func TestUnreadWatchCostsNothingAndExpires(t *testing.T) {
	db, apps := newApps(t, store.MemoryConfig{History: 3})
	create(t, apps, "web")
	n := 0
	for e, err := range apps.Watch(t.Context(), 0) {
		if n++; n == 2 {
			require.ErrorIs(t, err, informer.ErrExpired)
			continue
		}
		require.Equal(t, informer.Added, e.Type)
		for n := range 4 { // the second change falls out of the history while the consumer works
			scale(t, apps, "web", n+1)
		}
	}
	assert.Equal(t, 2, n)
	require.NoError(t, db.CheckInvariants())
}

// However slow the watchers are, dropped history is garbage. Each object has a megabyte. A watch that retained
// dropped history would keep a hundred of them.
func TestUnreadWatchesRetainNoMemory(t *testing.T) {
	type blob struct{ Bytes []byte }
	blobs := open[blob](t, store.NewMemory(store.MemoryConfig{History: 2}), "blob")
	o, err := blobs.Create(t.Context(), store.Object[blob]{Key: "x"})
	require.NoError(t, err)
	var slow []func() (informer.Event[store.Object[blob]], error, bool)
	for range 10 {
		pull, stop := iter.Pull2(blobs.Watch(t.Context(), 0))
		defer stop()
		_, err, _ := pull()
		require.NoError(t, err)
		slow = append(slow, pull)
	}
	for n := range 100 {
		o.Value.Bytes = make([]byte, 1<<20)
		o.Value.Bytes[0] = byte(n + 1)
		o, err = blobs.Update(t.Context(), o)
		require.NoError(t, err)
	}
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	assert.Less(t, stats.HeapAlloc, uint64(50<<20))
	for _, pull := range slow {
		_, err, ok := pull()
		require.True(t, ok)
		require.ErrorIs(t, err, informer.ErrExpired)
	}
}

// The watches are faster than the writer, so that each write comes while one of them is about to wait.
func TestWatchAboutToWaitMissesNothing(t *testing.T) {
	const writes = 20_000
	_, apps := newApps(t, store.MemoryConfig{History: writes})
	var watches sync.WaitGroup
	for range 2 {
		watches.Go(func() { // ends with the last write, or with the first that is missed; waited for below
			seen := informer.Version(0)
			for e, err := range apps.Watch(t.Context(), 0) {
				if seen++; err != nil || e.Type == informer.Bookmark || e.Version != seen {
					t.Errorf("%v of version %d, where %d comes next: %v", e.Type, e.Version, seen, err)
					return
				}
				if seen == writes {
					return
				}
			}
		})
	}
	o := create(t, apps, "web")
	for n := range writes - 1 {
		o.Value.Replicas = n + 1
		var err error
		if o, err = apps.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	watches.Wait()
}

func TestWatchAtEdgeOfHistoryMissesNothing(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{History: 3})
	create(t, apps, "web")
	var seen []int
	for e, err := range apps.Watch(t.Context(), 0) {
		require.NoError(t, err)
		if seen = append(seen, e.Object.Value.Replicas); len(seen) == 4 {
			break
		}
		for n := 1; len(seen) == 1 && n <= 3; n++ {
			scale(t, apps, "web", n)
		}
	}
	assert.Equal(t, []int{0, 1, 2, 3}, seen)
}
