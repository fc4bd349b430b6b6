package dbtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// App is the value of the objects of a test.
type App struct{ Image string }

const appKind = "App"

// Apps returns the store of a kind, App, in db.
func Apps(t testing.TB, db backend.Backend) store.Store[App] {
	t.Helper()
	return must[store.Store[App]](t)(store.Open(db, appKind, store.Config[App]{}))
}

// Put writes a record of the kind app unconditionally.
func Put(ctx context.Context, db backend.Backend, key, value string, fences ...backend.Fence) (backend.Record, error) {
	return db.Transact(ctx, "app", key, fences, func(backend.Record) (*backend.Record, error) {
		return &backend.Record{Meta: []byte("{}"), Value: []byte(value)}, nil
	})
}

// Leases returns leases that are objects of db. They are unfenced, because the suite of leases lowers a term.
func Leases(t testing.TB, db backend.Backend) leaderelect.LeaseStore {
	t.Helper()
	records := must[store.Store[storelease.Record]](t)(store.Open(db, "Lease", store.Config[storelease.Record]{}))
	return storelease.New(records, storelease.Config{Unfenced: true})
}

// HistoryIsTrimmed checks that an empty database that keeps a number of changes removes older ones, and nothing else. rows
// returns how many objects and changes it holds. longer is the same database for a process that keeps more changes.
func HistoryIsTrimmed(t testing.TB, db, longer backend.Backend, history int, rows func() int) {
	t.Helper()
	s, object := Apps(t, db), must[store.Object[App]](t)
	old := object(s.Create(t.Context(), store.Object[App]{Key: "old"}))
	object(s.Create(t.Context(), store.Object[App]{Key: "deleted"}))
	deleted := object(s.Delete(t.Context(), "deleted"))
	o := object(s.Create(t.Context(), store.Object[App]{Key: "busy"}))
	var versions []informer.Version
	for i := range 5 * history {
		o.Value.Image = fmt.Sprint(i)
		o = object(s.Update(t.Context(), o))
		versions = append(versions, o.Version)
	}
	if n := rows(); n != history+1 {
		t.Errorf("there are %d rows, want %d: old, and the changes of busy", n, history+1)
	}
	if tombstone := must[backend.Record](t)(db.Get(t.Context(), appKind, "deleted")); tombstone.Version != 0 {
		t.Errorf("the tombstone is still there: %+v", tombstone)
	}
	if got := object(s.Get(t.Context(), "old")); !reflect.DeepEqual(got, old) {
		t.Errorf("old is %+v, want %+v", got, old)
	}
	first := versions[len(versions)-history-1] // the oldest version from which a watch can start
	expire := func(versions ...informer.Version) {
		t.Helper()
		for _, v := range versions {
			for e, err := range s.Watch(t.Context(), v) {
				if !errors.Is(err, backend.ErrExpired) {
					t.Fatalf("the watch from version %d yields %+v, %v, want ErrExpired", v, e, err)
				}
			}
		}
	}
	expire(0, deleted.Version, first-1, o.Version+1)
	var received []informer.Version
	for e, err := range s.Watch(t.Context(), first) {
		if err != nil {
			t.Fatal(err)
		}
		if received = append(received, e.Version); e.Version == o.Version {
			break
		}
	}
	if want := versions[len(versions)-history:]; !slices.Equal(received, want) {
		t.Errorf("the watch from version %d yields %v, want %v", first, received, want)
	}
	n := object(Apps(t, longer).Create(t.Context(), store.Object[App]{Key: "new"}))
	expire(first - 1) // what was trimmed does not come back

	update := func(s store.Store[App], times int) {
		for i := range times {
			n.Value.Image = fmt.Sprint(times, i)
			n = object(s.Update(t.Context(), n))
		}
	}
	update(Apps(t, longer), 4*history)
	update(s, history) // each removes more than it adds
	if n := rows(); n != history+2 {
		t.Errorf("there are %d rows, want %d: old, busy, and the changes of new", n, history+2)
	}
}

// must returns a function that returns its argument, unless there is an error.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
