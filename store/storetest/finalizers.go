package storetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

var finalizerCases = []testCase{
	{"a deletion of an object without finalizers removes it", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web")
		w := watch(t, patient(t), s, o.Version)
		last := remove(t, s, "web")
		keys(t, list(t, s))
		e := w.seesDeleted(o)
		same(t, "what Delete returned", last, e.Object)
	}},

	{"an object with finalizers is deleted when the last one is removed", func(t testing.TB, db Database) {
		s := db.open("thing")
		before := create(t, s, "web", "dns", "disk")
		w := watch(t, patient(t), s, before.Version)

		deleting := remove(t, s, "web")
		o := get(t, s, "web")
		same(t, "what Delete returned", deleting, o)
		if o.Deleting.IsZero() {
			t.Fatalf("Deleting is zero after Delete")
		}
		want := before
		want.Deleting, want.Version, want.Generation = o.Deleting, o.Version, before.Generation+1
		same(t, "a deletion sets nothing but Deleting and Generation", o, want)
		w.sees(informer.Modified, o)

		o.Finalizers = []string{"disk"}
		o = update(t, s, o)
		same(t, "after one finalizer is gone", get(t, s, "web"), o)
		w.sees(informer.Modified, o)

		o.Finalizers, o.Value.Name = nil, "last words"
		last := update(t, s, o)
		sameContent(t, "the last state", last, o)
		keys(t, list(t, s))
		e := w.seesDeleted(last)
		same(t, "what the last Update returned", last, e.Object)

		again := create(t, s, "web")
		if again.UID == before.UID || !again.Deleting.IsZero() {
			t.Fatalf("the next incarnation of the key is %s", text(again))
		}
		w.sees(informer.Added, again)
	}},

	{"a second deletion of an object that is being deleted does nothing", func(t testing.TB, db Database) {
		s := db.open("thing")
		create(t, s, "web", "dns")
		o := remove(t, s, "web")
		w := watch(t, patient(t), s, o.Version)
		same(t, "what the second Delete returned", remove(t, s, "web"), o)
		must(t, errOf(s.Delete(patient(t), "web", store.IfVersion(o.Version), store.IfUID(o.UID))))
		refused(t, errOf(s.Delete(patient(t), "web", store.IfUID("x"))), store.ErrConflict, opDelete, s, "web")
		same(t, "the object", get(t, s, "web"), o)
		w.sees(informer.Added, create(t, s, "next"))
	}},

	{"an update cannot undo a deletion", func(t testing.TB, db Database) {
		s := db.open("thing")
		before := create(t, s, "web", "dns")
		remove(t, s, "web")
		o := get(t, s, "web")
		_, err := s.Update(patient(t), before)
		refused(t, err, store.ErrConflict, opUpdate, s, "web")
		before.Version, before.Value.Size = o.Version, 7
		after := update(t, s, before)
		if !after.Deleting.Equal(o.Deleting) {
			t.Fatalf("Deleting went from %v to %v", o.Deleting, after.Deleting)
		}
	}},

	{"an update cannot request a deletion", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web")
		o.Deleting, o.Value.Size = o.Created, 7
		if o = update(t, s, o); !o.Deleting.IsZero() {
			t.Fatalf("Deleting was set by an update")
		}
		same(t, "the object", get(t, s, "web"), o)
	}},

	{"removing the last finalizer of an object that is not being deleted keeps it", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web", "dns")
		o.Finalizers = nil
		o = update(t, s, o)
		same(t, "the object", get(t, s, "web"), o)
		remove(t, s, "web")
		keys(t, list(t, s))
	}},

	{"a started deletion changes the version that a writer must name", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web", "dns")
		remove(t, s, "web")
		o.Finalizers = nil
		_, err := s.Update(patient(t), o)
		refused(t, err, store.ErrConflict, opUpdate, s, "web")
		keys(t, list(t, s), "web")
	}},
}
