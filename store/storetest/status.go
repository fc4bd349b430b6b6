package storetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

var statusCases = []testCase{
	{"the generation grows only with the value and with a deletion", func(t testing.TB, db Database) {
		s := db.open("thing")
		o, err := s.Create(patient(t), object{Key: "web", Generation: 7})
		must(t, err)
		want := int64(1)
		is := func(after string) {
			t.Helper()
			if stored := get(t, s, "web").Generation; o.Generation != want || stored != want {
				t.Fatalf("the generation is %d after %s, and %d is stored, want %d", o.Generation, after, stored, want)
			}
		}
		is("Create")
		o.Value.Size, want = 1, 2
		o = update(t, s, o)
		is("an Update of the value")
		o.Generation = 40
		o = update(t, s, o)
		is("an Update of nothing")
		o.Labels, o.Owners, o.Finalizers = map[string]string{"a": "b"}, owners(), []string{"dns"}
		o = update(t, s, o)
		is("an Update of the envelope")
		o.Value.Status.Phase = "up"
		o, err = s.UpdateStatus(patient(t), o)
		must(t, err)
		is("an UpdateStatus")
		remove(t, s, "web")
		o, want = get(t, s, "web"), 3
		is("a deletion that waits")
		remove(t, s, "web")
		is("another deletion")
	}},

	{"UpdateStatus replaces only the status", func(t testing.TB, db Database) {
		s := db.open("thing")
		given := spoilable()
		o, err := s.Create(patient(t), given)
		must(t, err)
		sameContent(t, "what Create returned, status and all", o, given)
		w := watch(t, patient(t), s, o.Version)
		other := object{Key: "web", Version: o.Version, Value: Thing{Name: "other", Status: Status{Phase: "up"}}}
		after, err := s.UpdateStatus(patient(t), other)
		must(t, err)
		want := o
		want.Value.Status, want.Version = other.Value.Status, after.Version
		same(t, "what UpdateStatus returned", after, want)
		same(t, "what Get returned", get(t, s, "web"), want)
		w.sees(informer.Modified, after)
		if after.Version <= o.Version {
			t.Fatalf("the version went from %d to %d", o.Version, after.Version)
		}
		other.Version = after.Version
		again, err := s.UpdateStatus(patient(t), other)
		must(t, err)
		same(t, "what an UpdateStatus that changed nothing returned", again, after)
	}},

	{"Update leaves the status unchanged", func(t testing.TB, db Database) {
		s := db.open("thing")
		o, err := s.Create(patient(t), object{Key: "web", Value: Thing{Status: Status{Phase: "up"}}})
		must(t, err)
		given := o
		given.Value = Thing{Size: 5, Status: Status{Phase: "down"}}
		o = update(t, s, given)
		sameContent(t, "what Update returned", o, object{Key: "web", Value: Thing{Size: 5, Status: Status{Phase: "up"}}})
		same(t, "what Get returned", get(t, s, "web"), o)
		given = o
		given.Value.Status.Phase = "down"
		same(t, "what an Update of the status alone returned", update(t, s, given), o)
	}},

	{"UpdateStatus is rejected like Update", func(t testing.TB, db Database) {
		s := db.open("thing")
		old := create(t, s, "web")
		o := grow(t, s, "web")
		change := func(o object, pre ...store.Precondition) error {
			o.Value.Status.Phase = "up"
			_, err := s.UpdateStatus(patient(t), o, pre...)
			return err
		}
		e := refused(t, change(old), store.ErrConflict, opUpdateStatus, s, "web")
		if e.Have != o.Version || e.Want != old.Version {
			t.Fatalf("the error has the versions %d and %d, want %d and %d", e.Have, e.Want, o.Version, old.Version)
		}
		refused(t, change(object{Key: "gone", Version: 9}), store.ErrNotFound, opUpdateStatus, s, "gone")
		refused(t, change(o, store.IfUID("x")), store.ErrConflict, opUpdateStatus, s, "web")
		must(t, change(o, store.IfTerm("lease", 3)))
		refused(t, change(get(t, s, "web"), store.IfTerm("lease", 2)), store.ErrFenced, opUpdateStatus, s, "web")
	}},
}
