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
	_, open := records(t)
	apps := open(store.Config[App]{})
	var want []string
	expect := func(what string, o object) { want = append(want, fmt.Sprint(what, " ", o.Key, " ", o.Version)) }
	create(t, apps, "web") // not in it
	expect("Added", label(t, apps, "web", "front"))
	expect("Modified", scale(t, apps, "web", 2))
	expect("Deleted", label(t, apps, "web", "back"))
	scale(t, apps, "web", 3)
	label(t, apps, "web", "")
	expect("Added", label(t, apps, "web", "front"))
	o, err := apps.Create(t.Context(), object{Key: "db", Labels: map[string]string{"tier": "front"}})
	require.NoError(t, err)
	expect("Added", o)
	o, err = apps.Delete(t.Context(), "web")
	require.NoError(t, err)
	expect("Deleted", o)
	create(t, apps, "gone")
	require.NoError(t, errOf(apps.Delete(t.Context(), "gone")))
	last, err := apps.Create(t.Context(), object{Key: "last", Labels: map[string]string{"tier": "front"}})
	require.NoError(t, err)
	expect("Added", last)
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
}

// An informer of a selection always holds the result of Select, and reaches the version of every write.
func TestSelectedInformerMirrorsOnlySelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{History: 20})
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
		b := cut{store.NewMemory(store.MemoryConfig{}), bookmarks}
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
