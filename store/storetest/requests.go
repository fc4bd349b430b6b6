package storetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

var requestCases = []testCase{
	{"a create with the same request id is not applied twice", func(t testing.TB, db Database) {
		s := db.open("thing")
		given := object{Key: "web", Value: full()}
		o, err := s.Create(patient(t), given, store.Once("r1"))
		must(t, err)
		w := watch(t, patient(t), s, o.Version)
		again, err := s.Create(patient(t), given, store.IfVersion(0), store.Once("r1"))
		must(t, err)
		same(t, "what the second Create returned", again, o)
		_, err = s.Create(patient(t), given, store.Once("r2"))
		refused(t, err, store.ErrExists, store.OpCreate, s, "web")
		remove(t, s, "web")
		again, err = s.Create(patient(t), given, store.Once("r1"))
		must(t, err)
		sameContent(t, "what a Create returned that was repeated after the deletion", again, o)
		keys(t, list(t, s))
		w.seesDeleted(o)
		w.sees(informer.Added, create(t, s, "next"))
	}},

	{"an update with the same request id is not applied twice", func(t testing.TB, db Database) {
		s := db.open("thing")
		before := create(t, s, "web")
		given := before
		given.Value.Size++
		_, err := s.Update(patient(t), given, store.IfTerm("lease", 1), store.Once("r1"))
		must(t, err)
		later := grow(t, s, "web")
		_, err = s.Update(patient(t), later, store.IfTerm("lease", 2))
		must(t, err)
		again, err := s.Update(patient(t), given, store.IfTerm("lease", 1), store.Once("r1"))
		must(t, err)
		same(t, "what the second Update returned, after another one", again, later)
		same(t, "what is stored", get(t, s, "web"), later)

		later.Value.Status.Phase = "up"
		o, err := s.UpdateStatus(patient(t), later, store.Once("r2"))
		must(t, err)
		again, err = s.UpdateStatus(patient(t), later, store.Once("r2"))
		must(t, err)
		same(t, "what the second UpdateStatus returned", again, o)
	}},

	{"a deletion with the same request id does not delete the next life", func(t testing.TB, db Database) {
		s := db.open("thing")
		create(t, s, "web")
		deleted, err := s.Delete(patient(t), "web", store.Once("r1"))
		must(t, err)
		again, err := s.Delete(patient(t), "web", store.Once("r1"))
		must(t, err)
		same(t, "what the second Delete returned", again, deleted)
		create(t, s, "web")
		must(t, errOf(s.Delete(patient(t), "web", store.Once("r1"))))
		keys(t, list(t, s), "web")
	}},

	{"a write that was refused may be sent again under its request id", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web")
		wrong := o
		wrong.Version++
		_, err := s.Update(patient(t), wrong, store.Once("r1"))
		refused(t, err, store.ErrConflict, store.OpUpdate, s, "web")
		o.Value.Size++
		after, err := s.Update(patient(t), o, store.Once("r1"))
		must(t, err)
		same(t, "what is stored", get(t, s, "web"), after)
	}},

	{"a request id is good for one write of a key only", func(t testing.TB, db Database) {
		s := db.open("thing")
		o, err := s.Create(patient(t), object{Key: "web"}, store.Once("r1"))
		must(t, err)
		_, err = s.Update(patient(t), o, store.Once("r1"))
		refused(t, err, store.ErrRequest, store.OpUpdate, s, "web")
		refused(t, errOf(s.Delete(patient(t), "web", store.Once("r1"))), store.ErrRequest, store.OpDelete, s, "web")
		keys(t, list(t, s), "web")
	}},
}
