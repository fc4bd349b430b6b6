package store_test

import (
	"context"
	"errors"
	"fmt"
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

// overwrite is put for a value alone, and a new envelope if there was none.
func overwrite(db backend.Backend, key, value string) error {
	_, err := db.Transact(context.Background(), "app", key, nil, func(have backend.Record) (*backend.Record, error) {
		if have.Version == 0 || have.Deleted {
			have = backend.Record{Key: key, Meta: []byte(envelope)}
		}
		have.Before, have.Value = nil, []byte(value)
		return &have, nil
	})
	return err
}

const envelope = `{"uid":"u1","generation":1,"created":"2024-01-01T00:00:00Z"}`

// records returns a Memory, and a function that opens the store of its kind app.
func records(t *testing.T) (db *store.Memory, open func(store.Config[App]) store.Store[App]) {
	db = store.NewMemory(store.MemoryConfig{})
	return db, func(cfg store.Config[App]) store.Store[App] { return must(store.Open(db, "app", cfg)) }
}

func TestUndecodableRecordAffectsNothingElse(t *testing.T) {
	db, open := records(t)
	apps := open(store.Config[App]{})
	create(t, apps, "a")
	create(t, apps, "c")
	put(t, db, "b", envelope, `"not an app"`)
	unread := object{Kind: "app", Key: "b", Version: 3}
	isB := func(err error) {
		t.Helper()
		var e *store.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, store.ErrDecode)
		assert.Equal(t, "app b", e.Kind+" "+e.Key)
		assert.EqualValues(t, 3, e.Have)
	}
	l, err := apps.List(t.Context())
	require.NoError(t, err)
	require.Len(t, l.Items, 2)
	require.Len(t, l.Unread, 1)
	assert.Equal(t, unread, l.Unread[0].Object)
	isB(l.Unread[0].Err)

	_, err = apps.Get(t.Context(), "b")
	isB(err)
	require.ErrorIs(t, errOf(apps.Update(t.Context(), object{Key: "b", Version: 3})), store.ErrDecode)
	require.ErrorIs(t, errOf(apps.Create(t.Context(), object{Key: "b"})), store.ErrExists)

	put(t, db, "b", `what?`, `{"Replicas":7}`)
	require.ErrorIs(t, errOf(apps.Delete(t.Context(), "b")), store.ErrDecode, "it may have finalizers")
	put(t, db, "b", envelope, `{"Replicas":7}`)
	var got []string
	for ev, err := range apps.Watch(t.Context(), 2) {
		require.NoError(t, err)
		got = append(got, fmt.Sprint(ev.Type, " ", ev.Object.Key, ev.Version, " ", ev.Object.Value.Replicas))
		if ev.Version == 3 {
			assert.Equal(t, unread, ev.Object)
			isB(ev.Err)
		}
		if ev.Version == 5 {
			break
		}
	}
	assert.Equal(t, []string{"Unreadable b3 0", "Unreadable b4 0", "Modified b5 7"}, got)
	l, err = apps.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.Items, 3)
	assert.Empty(t, l.Unread)
}

func TestUndecodableRecordCanBeDeleted(t *testing.T) {
	db, open := records(t)
	apps := open(store.Config[App]{})
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
}

func TestUndecodableRecordBeingDeletedStaysUndecodable(t *testing.T) {
	db, open := records(t)
	apps := open(store.Config[App]{})
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
}

// A cache keeps the last state of a record that no longer decodes, even across a new list, and updates it once the
// record decodes again.
func TestCacheKeepsLastStateOfUndecodableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{History: 3})
		apps := must(store.Open(db, "app", store.Config[App]{}))
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
		require.ErrorIs(t, inf.Unread("b"), store.ErrDecode)
		_, ok = inf.Get("gone")
		assert.False(t, ok)
		put(t, db, "b", envelope, `{"Replicas":7}`)
		last = create(t, apps, "d")
		source.gaps <- struct{}{}
		require.NoError(t, inf.WaitForVersion(ctx, last.Version))
		got, _ = inf.Get("b")
		assert.Equal(t, 7, got.Value.Replicas)
		require.NoError(t, inf.Unread("b"))
		cancel()
		require.NoError(t, <-done)
	})
}

var errCodec = errors.New("codec")

// Another program moves an object out of a selection, with a value that this one cannot decode. So the selection has no such object, whatever
// the later states are.
func TestUndecodableRecordLeavesSelection(t *testing.T) {
	db, open := records(t)
	apps := open(store.Config[App]{})
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
}
