package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// put writes a record past the engine, as another program might.
func put(t *testing.T, db backend.Backend, key, meta, value string) {
	t.Helper()
	_, err := db.Transact(context.Background(), "app", key, nil, func(have backend.Record) (*backend.Record, error) {
		next := have
		next.Meta, next.Value = []byte(meta), []byte(value)
		return &next, nil
	})
	require.NoError(t, err)
}

const envelope = `{"uid":"u1","generation":1,"created":"2024-01-01T00:00:00Z"}`

// eitherWay runs a test on a Memory that keeps values, and on one that keeps records.
func eitherWay(t *testing.T, test func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App])) {
	for name, hide := range map[string]bool{"values": false, "records": true} {
		t.Run(name, func(t *testing.T) {
			db := must(store.NewMemory(store.MemoryConfig{}))
			test(t, db, func(cfg store.Config[App]) store.Store[App] {
				if hide {
					return must(store.Open(behind{db}, "app", cfg))
				}
				return must(store.Open(db, "app", cfg))
			})
		})
	}
}

func TestUndecodableRecordAffectsNothingElse(t *testing.T) {
	eitherWay(t, func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App]) {
		var log bytes.Buffer
		var told []*store.Error
		apps := open(store.Config[App]{
			Logger:        slog.New(slog.NewTextHandler(&log, nil)),
			OnUndecodable: func(e *store.Error) { told = append(told, e) },
		})
		create(t, apps, "a")
		create(t, apps, "c")
		put(t, db, "b", envelope, `"not an app"`)
		for range 2 {
			l, err := apps.List(t.Context())
			require.NoError(t, err)
			require.Len(t, l.Items, 2)
			require.Equal(t, []object{{Kind: "app", Key: "b", Version: 3}}, l.Unread)
		}
		require.Len(t, told, 1, "each version once")
		assert.Equal(t, "app b 3", told[0].Kind+" "+told[0].Key+" "+string('0'+rune(told[0].Have)))
		assert.ErrorIs(t, told[0].Err, store.ErrDecode)
		assert.Contains(t, log.String(), "kind=app key=b version=3")
		assert.Equal(t, told, apps.Stats().Undecodable)

		_, err := apps.Get(t.Context(), "b")
		require.ErrorIs(t, err, store.ErrDecode)
		var e *store.Error
		require.ErrorAs(t, err, &e)
		assert.EqualValues(t, 3, e.Have)
		require.ErrorIs(t, errOf(apps.Update(t.Context(), object{Key: "b", Version: 3})), store.ErrDecode)
		require.ErrorIs(t, errOf(apps.Create(t.Context(), object{Key: "b"})), store.ErrExists)

		put(t, db, "b", `what?`, `{"Replicas":7}`)
		require.ErrorIs(t, errOf(apps.Delete(t.Context(), "b")), store.ErrDecode, "it may have finalizers")
		last := create(t, apps, "d")
		n := 0
		for ev, err := range apps.Watch(t.Context(), 2) { // passes by two versions of b
			require.NoError(t, err)
			if ev.Type == informer.Bookmark {
				n++
				continue
			}
			assert.Equal(t, last, ev.Object)
			break
		}
		assert.Equal(t, 2, n)
		assert.Len(t, told, 2, "another version")

		require.Len(t, apps.Stats().Undecodable, 1)
		put(t, db, "b", envelope, `{"Replicas":7}`)
		for ev, err := range apps.Watch(t.Context(), last.Version) {
			require.NoError(t, err)
			assert.Equal(t, 7, ev.Object.Value.Replicas)
			break
		}
		assert.Empty(t, apps.Stats().Undecodable, "a watch has seen the repair")
		put(t, db, "b", envelope, `"not an app"`)
		l, err := apps.List(t.Context())
		require.NoError(t, err)
		require.Len(t, apps.Stats().Undecodable, 1)
		put(t, db, "b", envelope, `{"Replicas":7}`)
		l, err = apps.List(t.Context())
		require.NoError(t, err)
		assert.Len(t, l.Items, 4)
		assert.Empty(t, l.Unread)
		assert.Empty(t, apps.Stats().Undecodable, "a list has seen the repair")
	})
}

// Only a reader of the whole kind, or of the history, learns for certain that a record was repaired.
func TestRepairIsNotedByListsAndWatchesNotSelects(t *testing.T) {
	eitherWay(t, func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App]) {
		told := 0
		apps := open(store.Config[App]{Logger: slog.New(slog.DiscardHandler), OnUndecodable: func(*store.Error) { told++ }})
		put(t, db, "b", envelope, `"not an app"`)
		_, err := apps.List(t.Context())
		require.NoError(t, err)
		put(t, db, "b", envelope, `{"Replicas":7}`)
		l, err := apps.Select(t.Context(), store.Selector{Prefix: "b"})
		require.NoError(t, err)
		require.Len(t, l.Items, 1)
		for range apps.ListPages(t.Context()) {
			break
		}
		assert.Len(t, apps.Stats().Undecodable, 1)
		for _, err := range apps.ListPages(t.Context()) {
			require.NoError(t, err)
		}
		assert.Empty(t, apps.Stats().Undecodable)
		assert.Equal(t, 1, told)
		for range apps.Watch(t.Context(), 0) {
			break // at the version before the repair
		}
		assert.Len(t, apps.Stats().Undecodable, 1)
		assert.Equal(t, 2, told)
	})
}

func TestUndecodableRecordCanBeDeleted(t *testing.T) {
	eitherWay(t, func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App]) {
		apps := open(store.Config[App]{Logger: slog.New(slog.DiscardHandler)})
		put(t, db, "b", envelope, `"not an app"`)
		require.NoError(t, errOf(apps.Delete(t.Context(), "b")))
		r, err := db.Get(t.Context(), "app", "b")
		require.NoError(t, err)
		assert.True(t, r.Deleted)
		assert.Equal(t, `"not an app"`, string(r.Value), "the last state, as it was")
		for ev, err := range apps.Watch(t.Context(), 1) {
			require.NoError(t, err)
			assert.Equal(t, informer.Deleted, ev.Type)
			assert.Equal(t, "b", ev.Object.Key)
			break
		}
		_, err = apps.Create(t.Context(), object{Key: "b"})
		require.NoError(t, err, "the tombstone is not in the way")
	})
}

func TestUndecodableRecordBeingDeletedStaysUndecodable(t *testing.T) {
	eitherWay(t, func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App]) {
		apps := open(store.Config[App]{Logger: slog.New(slog.DiscardHandler)})
		put(t, db, "b", `{"uid":"u1","generation":1,"finalizers":["f"],"created":"2024-01-01T00:00:00Z"}`, `"not an app"`)
		o, err := apps.Delete(t.Context(), "b")
		require.NoError(t, err)
		require.False(t, o.Deleting.IsZero())
		require.ErrorIs(t, errOf(apps.Get(t.Context(), "b")), store.ErrDecode, "and not a zero value")
		o.Finalizers = nil
		require.ErrorIs(t, errOf(apps.Update(t.Context(), o)), store.ErrDecode)
		l, err := apps.List(t.Context())
		require.NoError(t, err)
		require.Empty(t, l.Items)
		require.Len(t, l.Unread, 1)
	})
}

// A reader that lags sees an older state of a record than another reader has reported.
func TestOlderStateDoesNotHideUndecodableRecord(t *testing.T) {
	next := func(t *testing.T, apps store.Store[App], after informer.Version) {
		for _, err := range apps.Watch(t.Context(), after) {
			require.NoError(t, err)
			return
		}
	}
	eitherWay(t, func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App]) {
		told := 0
		apps := open(store.Config[App]{Logger: slog.New(slog.DiscardHandler), OnUndecodable: func(*store.Error) { told++ }})
		a := create(t, apps, "a")
		for _, err := range apps.ListPages(t.Context()) {
			require.NoError(t, err)
			put(t, db, "a", envelope, `"not an app"`)
			next(t, apps, a.Version)
			require.Len(t, apps.Stats().Undecodable, 1)
		}
		assert.Len(t, apps.Stats().Undecodable, 1, "a list")
		next(t, apps, 0)
		assert.Len(t, apps.Stats().Undecodable, 1, "a watch")
		next(t, apps, a.Version)
		assert.Equal(t, 1, told)
		require.NoError(t, errOf(apps.Delete(t.Context(), "a")))
		next(t, apps, 2)
		assert.Empty(t, apps.Stats().Undecodable)
	})
}

// A cache keeps the last state of a record that no longer decodes, even across a new list, and updates it once the
// record decodes again.
func TestCacheKeepsLastStateOfUndecodableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must(store.NewMemory(store.MemoryConfig{History: 3}))
		apps := must(store.Open(db, "app", store.Config[App]{Logger: slog.New(slog.DiscardHandler)}))
		old := create(t, apps, "b")
		create(t, apps, "gone")
		source := gapped{apps, make(chan struct{}, 1)}
		inf := must(informer.New(source, store.Key, informer.Config{Name: "apps", Logger: slog.New(slog.DiscardHandler)}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }() // ends with cancel; the test waits for it
		<-inf.Synced()

		put(t, db, "b", envelope, `"not an app"`)
		require.NoError(t, errOf(apps.Delete(ctx, "gone")))
		last := create(t, apps, "c")
		source.gaps <- struct{}{}
		require.NoError(t, inf.WaitForVersion(ctx, last.Version))
		got, ok := inf.Get("b")
		require.True(t, ok)
		assert.Equal(t, old, got)
		_, ok = inf.Get("gone")
		assert.False(t, ok)
		put(t, db, "b", envelope, `{"Replicas":7}`)
		last = create(t, apps, "d")
		source.gaps <- struct{}{}
		require.NoError(t, inf.WaitForVersion(ctx, last.Version))
		got, _ = inf.Get("b")
		assert.Equal(t, 7, got.Value.Replicas)
		cancel()
		require.NoError(t, <-done)
	})
}

var errCodec = errors.New("codec")

// Another program moves an object out of a selection, with a value that this one cannot decode. So the selection has no such object, whatever
// the later states are.
func TestUndecodableRecordLeavesSelection(t *testing.T) {
	eitherWay(t, func(t *testing.T, db *store.Memory, open func(store.Config[App]) store.Store[App]) {
		apps := open(store.Config[App]{Logger: slog.New(slog.DiscardHandler)})
		web := label(t, apps, create(t, apps, "web").Key, "front")
		_, err := db.Transact(t.Context(), "app", "web", nil, func(have backend.Record) (*backend.Record, error) {
			have.Before, have.Labels, have.Value = have.Labels, map[string]string{"tier": "back"}, []byte(`"not an app"`)
			return &have, nil
		})
		require.NoError(t, err)
		l, err := apps.Select(t.Context(), front)
		require.NoError(t, err)
		require.Empty(t, l.Items)
		require.Empty(t, l.Unread)
		last := create(t, apps, "last")
		var got []string
		for ev, err := range apps.WatchSelected(t.Context(), front, web.Version) {
			require.NoError(t, err)
			if ev.Type != informer.Bookmark {
				got = append(got, ev.Type.String()+" "+ev.Object.Key)
			}
			if ev.Version == last.Version {
				break
			}
		}
		assert.Equal(t, []string{"Deleted web"}, got)
		assert.Len(t, apps.Stats().Undecodable, 1)
	})
}
