package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// label gives an object a tier, or none.
func label(t *testing.T, s store.Store[App], key, tier string) object {
	t.Helper()
	o, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	o.Labels = nil
	if tier != "" {
		o.Labels = map[string]string{"tier": tier}
	}
	o, err = s.Update(t.Context(), o)
	require.NoError(t, err)
	return o
}

var front = store.Selector{Labels: []store.Requirement{{Label: "tier", Values: []string{"front"}}}}

func TestSelectedWatchReportsEnteringAndLeavingObjects(t *testing.T) {
	eitherWay(t, func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App]) {
		apps := open(store.Config[App]{})
		var want []string
		tell := func(what string, o object) { want = append(want, fmt.Sprint(what, " ", o.Key, " ", o.Version)) }
		create(t, apps, "web") // not in it
		tell("Added", label(t, apps, "web", "front"))
		tell("Modified", scale(t, apps, "web", 2))
		tell("Deleted", label(t, apps, "web", "back"))
		scale(t, apps, "web", 3)
		label(t, apps, "web", "")
		tell("Added", label(t, apps, "web", "front"))
		o, err := apps.Create(t.Context(), object{Key: "db", Labels: map[string]string{"tier": "front"}})
		require.NoError(t, err)
		tell("Added", o)
		o, err = apps.Delete(t.Context(), "web")
		require.NoError(t, err)
		tell("Deleted", o)
		create(t, apps, "gone")
		require.NoError(t, errOf(apps.Delete(t.Context(), "gone")))
		last, err := apps.Create(t.Context(), object{Key: "last", Labels: map[string]string{"tier": "front"}})
		require.NoError(t, err)
		tell("Added", last)
		for after := range last.Version {
			var got, rest []string
			for _, line := range want {
				var v informer.Version
				_, _ = fmt.Sscanf(line, "%s %s %d", new(string), new(string), &v)
				if v > after {
					rest = append(rest, line)
				}
			}
			for e, err := range apps.WatchSelected(t.Context(), front, after) {
				require.NoError(t, err)
				if e.Type != informer.Bookmark {
					got = append(got, fmt.Sprint(e.Type, " ", e.Object.Key, " ", e.Object.Version))
				}
				if e.Version == last.Version {
					break
				}
			}
			assert.Equal(t, rest, got, "after %d", after)
		}
	})
}

// An informer of a selection always holds the result of Select, and reaches the version of every write.
func TestSelectedInformerMirrorsOnlySelection(t *testing.T) {
	for _, skips := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := must(store.NewMemory(store.MemoryConfig{History: 20}))
			var b backend.Backend = db
			if skips {
				b = skipping{db}
			}
			apps := must(store.Open(b, "app", store.Config[App]{}))
			inf := must(informer.New(store.Selected(apps, front), store.Key, informer.Config{Name: "front", OnError: func(error) {}}))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- inf.Run(ctx) }() // ends with cancel; the test waits for it
			r := rand.New(rand.NewPCG(1, 2))
			for range 200 {
				for range r.IntN(40) {
					key := fmt.Sprint(r.IntN(6))
					switch _, err := apps.Get(ctx, key); {
					case errors.Is(err, store.ErrNotFound):
						_, err = apps.Create(ctx, object{Key: key, Labels: map[string]string{"tier": []string{"front", "back"}[r.IntN(2)]}})
						require.NoError(t, err)
					case r.IntN(4) == 0:
						require.NoError(t, errOf(apps.Delete(ctx, key)))
					case r.IntN(2) == 0:
						label(t, apps, key, []string{"front", "back", ""}[r.IntN(3)])
					default:
						scale(t, apps, key, r.IntN(100))
					}
				}
				l, err := apps.Select(ctx, front)
				require.NoError(t, err)
				require.NoError(t, inf.WaitForVersion(ctx, l.Version))
				require.Equal(t, len(l.Items), inf.Indexer().Len())
				for _, o := range l.Items {
					got, _ := inf.Get(o.Key)
					require.Equal(t, o, got)
				}
			}
			cancel()
			require.NoError(t, <-done)
		})
	}
}

// skipping is a Memory that leaves out all states that another one follows, but for deletions.
type skipping struct{ backend.Backend }

func (skipping) Capabilities() backend.Capabilities { return backend.Capabilities{Skips: true} }

func (s skipping) Watch(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		for c, err := range s.Backend.Watch(ctx, kind, backend.Query{Prefix: q.Prefix}, after) {
			if err == nil && c.Record.Key != "" && !c.Record.Deleted {
				if now, _ := s.Get(context.Background(), kind, c.Record.Key); now.Version > c.Version {
					continue
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// cut is a backend that says no more than that a version has expired, after some bookmarks.
type cut struct {
	backend.Backend
	bookmarks []informer.Version
}

func (c cut) Watch(context.Context, string, backend.Query, informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		for _, v := range c.bookmarks {
			yield(backend.Change{Version: v}, nil)
		}
		yield(backend.Change{}, backend.ErrExpired)
	}
}

func TestExpiredErrorNamesVersionOfWatch(t *testing.T) {
	for want, bookmarks := range map[informer.Version][]informer.Version{7: nil, 9: {8, 9}} {
		b := cut{must(store.NewMemory(store.MemoryConfig{})), bookmarks}
		apps := must(store.Open(b, "app", store.Config[App]{}))
		var last error
		for _, err := range apps.Watch(t.Context(), 7) {
			last = err
		}
		require.ErrorIs(t, last, informer.ErrExpired)
		require.EqualError(t, last, "store: watch app: "+informer.ErrExpired.Error())
		var e *store.Error
		require.ErrorAs(t, last, &e)
		assert.Equal(t, want, e.Want)
	}
}

func TestIdleKindSendsBookmarksPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, apps := newApps(t, store.MemoryConfig{})
		jobs := open[App](t, db, "job")
		for _, sel := range []store.Selector{{}, {Prefix: "none"}, front} {
			create(t, jobs, fmt.Sprint(sel))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			last, n := time.Now(), 0
			for e, err := range apps.WatchSelected(ctx, sel, 0) {
				if err != nil {
					break
				}
				require.LessOrEqual(t, time.Since(last), backend.BookmarkInterval)
				require.Equal(t, informer.Bookmark, e.Type)
				last = time.Now()
				if n++; n == 100 {
					cancel()
				}
			}
			require.Equal(t, 100, n)
		}
	})
}

func TestSelectedWatchLearnsVersionsOfOtherObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		var seen informer.Version
		done := make(chan struct{})
		go func() { // ends with cancel; the test waits for it
			defer close(done)
			for e, err := range apps.WatchSelected(ctx, store.Selector{Prefix: "shop/"}, 0) {
				if err == nil {
					seen = e.Version
				}
			}
		}()
		synctest.Wait()
		for n := range 50 {
			create(t, apps, fmt.Sprint("blog/", n))
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 50, seen)
		cancel()
		<-done
	})
}
