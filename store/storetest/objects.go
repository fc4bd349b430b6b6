package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

var objectCases = []testCase{
	{"Create, Get, and List return a created object unchanged", func(t testing.TB, db Database) {
		s := db.open("thing")
		if s.Kind() != "thing" {
			t.Fatalf("Kind() = %q, want the kind it was opened with", s.Kind())
		}
		given := object{Key: "web", Value: full(), Owners: owners(), Finalizers: []string{"dns", "disk"}}
		created, err := s.Create(patient(t), given)
		must(t, err)
		sameContent(t, "what Create returned", created, given)
		same(t, "what Get returned", get(t, s, "web"), created)
		l := list(t, s)
		keys(t, l, "web")
		same(t, "what List returned", l.Items[0], created)
	}},

	{"every object returned or sent has the right kind", func(t testing.TB, db Database) {
		s := db.open("thing")
		named := func(what string, o object, err error) object {
			must(t, err)
			if o.Kind != "thing" {
				t.Fatalf("%s: Kind is %q, want %q", what, o.Kind, "thing")
			}
			return o
		}
		o, err := s.Create(patient(t), object{Kind: "other", Key: "web", Finalizers: []string{"dns"}})
		o = named("Create", o, err)
		o.Kind, o.Value.Size = "other", 7
		o, err = s.Update(patient(t), o)
		o = named("Update", o, err)
		o.Kind = ""
		o, err = s.Update(patient(t), o)
		o = named("an Update that changes nothing", o, err)
		o.Kind, o.Value.Status.Phase = "", "up"
		o, err = s.UpdateStatus(patient(t), o)
		named("UpdateStatus", o, err)
		o, err = s.Get(patient(t), "web")
		named("Get", o, err)
		if want := (store.Ref{Kind: "thing", Key: "web", UID: o.UID}); o.Ref() != want {
			t.Fatalf("Ref() = %v, want %v", o.Ref(), want)
		}
		named("List", list(t, s).Items[0], nil)
		o, err = s.Delete(patient(t), "web")
		o = named("Delete with a finalizer", o, err)
		o.Finalizers = nil
		o, err = s.Update(patient(t), o)
		named("the Update that removed it", o, err)
		create(t, s, "shop")
		o, err = s.Delete(patient(t), "shop")
		named("Delete", o, err)
		w := watch(t, patient(t), s, 0)
		for gone := 0; gone < 2; {
			e := w.next()
			named("an event", e.Object, nil)
			if e.Type == informer.Deleted {
				gone++
			}
		}
	}},

	{"Create overwrites UID, Version, and Created", func(t testing.TB, db Database) {
		s := db.open("thing")
		odd := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
		first := create(t, s, "first")
		o, err := s.Create(patient(t), object{Key: "second", UID: first.UID, Version: 1000, Created: odd, Deleting: odd})
		must(t, err)
		switch {
		case o.UID == "" || o.UID == first.UID:
			t.Fatalf("UID is %q, want one of its own", o.UID)
		case o.Version <= first.Version || o.Version == 1000:
			t.Fatalf("Version is %d, want the next one after %d", o.Version, first.Version)
		case o.Created.IsZero() || o.Created.Equal(odd):
			t.Fatalf("Created is %v, want the time of the store", o.Created)
		case !o.Deleting.IsZero():
			t.Fatalf("Deleting is %v, want zero", o.Deleting)
		}
		same(t, "what Get returned", get(t, s, "second"), o)
	}},

	{"creating an existing key fails and changes nothing", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web")
		_, err := s.Create(patient(t), object{Key: "web", Value: Thing{Name: "other"}})
		refused(t, err, store.ErrExists, opCreate, s, "web")
		same(t, "the object", get(t, s, "web"), o)
	}},

	{"an object without a key cannot be created", func(t testing.TB, db Database) {
		s := db.open("thing")
		_, err := s.Create(patient(t), object{})
		var e *store.Error
		if !errors.As(err, &e) {
			t.Fatalf("Create returned %v, want a *store.Error", err)
		}
		keys(t, list(t, s))
	}},

	{"a missing object is not found", func(t testing.TB, db Database) {
		s, other := db.open("thing"), db.open("other")
		o := create(t, s, "web")
		remove(t, s, "web")
		create(t, other, "web")
		for _, key := range []string{"web", "never"} {
			_, err := s.Get(patient(t), key)
			refused(t, err, store.ErrNotFound, opGet, s, key)
			o.Key = key
			_, err = s.Update(patient(t), o)
			refused(t, err, store.ErrNotFound, opUpdate, s, key)
			refused(t, errOf(s.Delete(patient(t), key)), store.ErrNotFound, opDelete, s, key)
		}
		keys(t, list(t, s))
		keys(t, list(t, other), "web")
	}},

	{"a recreated key has another UID", func(t testing.TB, db Database) {
		s := db.open("thing")
		uids := map[string]bool{}
		for range 10 {
			uids[create(t, s, "web").UID] = true
			remove(t, s, "web")
		}
		if len(uids) != 10 {
			t.Fatalf("10 incarnations of a key had %d UIDs", len(uids))
		}
	}},

	{"Update replaces only the value, owners, and finalizers", func(t testing.TB, db Database) {
		s := db.open("thing")
		before := create(t, s, "web", "dns")
		odd := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
		given := object{
			Key: "web", Value: full(), UID: before.UID, Version: before.Version,
			Owners: owners(), Finalizers: []string{"disk"}, Created: odd, Deleting: odd,
		}
		after := update(t, s, given)
		sameContent(t, "what Update returned", after, given)
		want := given
		want.Kind = "thing"
		want.Created, want.Deleting, want.Version, want.Generation = before.Created, time.Time{}, after.Version, 2
		same(t, "what Update returned", after, want)
		if after.Version <= before.Version {
			t.Fatalf("Version went from %d to %d", before.Version, after.Version)
		}
		same(t, "what Get returned", get(t, s, "web"), after)

		bare := update(t, s, object{Key: "web", Version: after.Version})
		sameContent(t, "after everything was taken away", get(t, s, "web"), object{Key: "web"})
		if bare.UID != before.UID {
			t.Fatalf("an update without a UID changed it from %q to %q", before.UID, bare.UID)
		}
	}},

	{"an update that changes nothing writes nothing", func(t testing.TB, db Database) {
		s := db.open("thing")
		o, err := s.Create(patient(t), object{Key: "web", Value: full(), Owners: owners(), Finalizers: []string{"dns"}})
		must(t, err)
		w := watch(t, patient(t), s, o.Version)
		for range 3 {
			again := object{Key: "web", Version: o.Version, Value: full(), Owners: owners(), Finalizers: []string{"dns"}}
			same(t, "what Update returned", update(t, s, again), o)
		}
		same(t, "what Get returned", get(t, s, "web"), o)
		next := create(t, s, "next")
		w.sees(informer.Added, next)
	}},

	{"an update that changes any one field is written", func(t testing.TB, db Database) {
		s := db.open("thing")
		given := object{Key: "web", Value: full(), Owners: owners(), Finalizers: []string{"dns", "disk"}}
		o, err := s.Create(patient(t), given)
		must(t, err)
		for i, change := range []func(*object){
			func(o *object) { o.Value.Name = "other" },
			func(o *object) { o.Value.Size++ },
			func(o *object) { o.Value.Tags[1] = "z" },
			func(o *object) { o.Value.Tags = o.Value.Tags[:1] },
			func(o *object) { o.Value.Labels["tier"] = "back" },
			func(o *object) { delete(o.Value.Labels, "zone"); o.Value.Labels["rack"] = "a" },
			func(o *object) { o.Value.Main.Ports[0]++ },
			func(o *object) { o.Value.Main = nil },
			func(o *object) { o.Value.Parts[1].Name = "bike" },
			func(o *object) { o.Value.Seen = o.Value.Seen.Add(time.Millisecond) },
			func(o *object) { o.Labels = map[string]string{"tier": "front"} },
			func(o *object) { o.Labels["tier"] = "back" },
			func(o *object) { o.Labels = nil },
			func(o *object) { o.Owners[0].Controller = true },
			func(o *object) { o.Owners = o.Owners[:1] },
			func(o *object) { o.Finalizers[0], o.Finalizers[1] = o.Finalizers[1], o.Finalizers[0] },
			func(o *object) { o.Finalizers = nil },
		} {
			before := o.Version
			change(&o)
			want := content(o)
			o = update(t, s, o)
			if o.Version <= before {
				t.Fatalf("change %d was not written: the version stays %d", i, before)
			}
			if got := content(get(t, s, "web")); got != want {
				t.Fatalf("change %d:\n got %s\nwant %s", i, got, want)
			}
		}
	}},

	{"a list is in the order of the bytes of the keys", func(t testing.TB, db Database) {
		s := db.open("thing")
		keys(t, list(t, s))
		for _, key := range []string{"b", "é", "a/b", "B", "ab", "a", "a b", "10", "9", "a%b"} {
			create(t, s, key)
		}
		keys(t, list(t, s), "10", "9", "B", "a", "a b", "a%b", "a/b", "ab", "b", "é")
	}},

	{"every change has a greater version than all earlier ones", func(t testing.TB, db Database) {
		s := db.open("thing")
		last := list(t, s).Version
		grows := func(what string, v informer.Version) {
			t.Helper()
			if v <= last {
				t.Fatalf("%s has version %d, after a list of version %d", what, v, last)
			}
			if last = list(t, s).Version; last < v {
				t.Fatalf("the list has version %d after %s of version %d", last, what, v)
			}
		}
		grows("a create", create(t, s, "a").Version)
		grows("another create", create(t, s, "b", "dns").Version)
		grows("an update", grow(t, s, "a").Version)
		remove(t, s, "b")
		grows("a deletion that waits", get(t, s, "b").Version)
		remove(t, s, "a")
		grows("a deletion", list(t, s).Version)
		grows("a create of a key that was deleted", create(t, s, "a").Version)
		o := get(t, s, "b")
		o.Finalizers = nil
		grows("a deletion by update", update(t, s, o).Version)
	}},

	{"an ended context ends every call and writes nothing", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(patient(t))
		cancel(cause)
		_, err := s.Get(ctx, "web")
		refused(t, err, cause, opGet, s, "web")
		_, err = s.List(ctx)
		refused(t, err, cause, opList, s, "")
		_, err = s.Create(ctx, object{Key: "new"})
		refused(t, err, cause, opCreate, s, "new")
		_, err = s.Update(ctx, object{Key: "web", Version: o.Version})
		refused(t, err, cause, opUpdate, s, "web")
		refused(t, errOf(s.Delete(ctx, "web")), cause, opDelete, s, "web")
		same(t, "the object", get(t, s, "web"), o)
		keys(t, list(t, s), "web")
	}},

	{"an object has the trace context of its last change, in reads and in watches", func(t testing.TB, db Database) {
		s, other := db.open("thing"), db.through(1, "thing")
		w := watch(t, patient(t), other, 0)
		under := func(trace string) context.Context { return context.WithValue(patient(t), traceKey{}, trace) }
		long := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 rojo=00f067aa0ba902b7,congo=" + strings.Repeat("t", 256)
		has := func(what string, o object, err error, want string) object {
			t.Helper()
			must(t, err)
			if o.Trace != want {
				t.Fatalf("%s: Trace is %q, want %q", what, o.Trace, want)
			}
			return o
		}
		reported := func(what, want string) {
			t.Helper()
			has(what+" in the watch", w.next().Object, nil, want)
		}
		o, err := s.Create(under(long), object{Key: "web", Trace: "of the caller", Finalizers: []string{"dns"}})
		o = has("Create", o, err, long)
		reported("Create", long)
		o, err = s.Update(under("unused"), o)
		o = has("an Update that changes nothing", o, err, long)
		has("Get", get(t, other, "web"), nil, long)
		has("List", list(t, other).Items[0], nil, long)
		o.Value.Size++
		o, err = s.Update(patient(t), o)
		o = has("an Update without one", o, err, "")
		reported("an Update without one", "")
		o.Value.Status.Phase = "up"
		o, err = s.UpdateStatus(under("b"), o)
		has("UpdateStatus", o, err, "b")
		reported("UpdateStatus", "b")
		o, err = s.Delete(under("c"), "web")
		o = has("Delete with a finalizer", o, err, "c")
		reported("Delete with a finalizer", "c")
		o.Finalizers = nil
		o, err = s.Update(under("d"), o)
		has("the Update that removed it", o, err, "d")
		reported("the Update that removed it", "d")
	}},
}
