package storetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

var preconditionCases = []testCase{
	{"an update of a version other than the stored one is a conflict", func(t testing.TB, db Database) {
		s := db.open("thing")
		old := create(t, s, "web")
		o := grow(t, s, "web")
		for _, v := range []informer.Version{0, old.Version, o.Version + 1, o.Version + 1000} {
			_, err := s.Update(patient(t), object{Key: "web", UID: o.UID, Version: v})
			e := refused(t, err, store.ErrConflict, opUpdate, s, "web")
			if e.Have != o.Version || e.Want != v {
				t.Fatalf("the error has the versions %d and %d, want %d and %d", e.Have, e.Want, o.Version, v)
			}
		}
		_, err := s.Update(patient(t), old)
		refused(t, err, store.ErrConflict, opUpdate, s, "web")
		same(t, "the object", get(t, s, "web"), o)
	}},

	{"a no-op update of an old version is still a conflict", func(t testing.TB, db Database) {
		s := db.open("thing")
		old := create(t, s, "web")
		o := grow(t, s, "web")
		o.Version = old.Version
		_, err := s.Update(patient(t), o)
		refused(t, err, store.ErrConflict, opUpdate, s, "web")
	}},

	{"an update with another UID is a conflict", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web")
		wrong := o
		wrong.UID += "x"
		_, err := s.Update(patient(t), wrong)
		refused(t, err, store.ErrConflict, opUpdate, s, "web")
		same(t, "the object", get(t, s, "web"), o)
	}},

	{"an update for an earlier incarnation of the key is a conflict", func(t testing.TB, db Database) {
		s := db.open("thing")
		old := create(t, s, "web")
		remove(t, s, "web")
		o := create(t, s, "web")
		_, err := s.Update(patient(t), old)
		refused(t, err, store.ErrConflict, opUpdate, s, "web")
		refused(t, errOf(s.Delete(patient(t), "web", store.IfUID(old.UID))), store.ErrConflict, opDelete, s, "web")
		same(t, "the object", get(t, s, "web"), o)
	}},

	{"IfVersion holds only for the stored version", func(t testing.TB, db Database) {
		s := db.open("thing")
		old := create(t, s, "web")
		o := grow(t, s, "web")
		for _, v := range []informer.Version{0, old.Version, o.Version + 1} {
			_, err := s.Update(patient(t), o, store.IfVersion(v))
			refused(t, err, store.ErrConflict, opUpdate, s, "web")
			e := refused(t, errOf(s.Delete(patient(t), "web", store.IfVersion(v))), store.ErrConflict, opDelete, s, "web")
			if e.Have != o.Version || e.Want != v {
				t.Fatalf("the error has the versions %d and %d, want %d and %d", e.Have, e.Want, o.Version, v)
			}
		}
		same(t, "the object", get(t, s, "web"), o)
		o.Value.Size = 10
		o, err := s.Update(patient(t), o, store.IfVersion(o.Version))
		must(t, err)
		must(t, errOf(s.Delete(patient(t), "web", store.IfVersion(o.Version))))
		refused(t, errOf(s.Delete(patient(t), "web", store.IfVersion(o.Version))), store.ErrNotFound, opDelete, s, "web")
	}},

	{"IfUID holds only for the stored UID", func(t testing.TB, db Database) {
		s := db.open("thing")
		other, o := create(t, s, "other"), create(t, s, "web")
		for _, uid := range []string{"", other.UID, o.UID + "x"} {
			_, err := s.Update(patient(t), o, store.IfUID(uid))
			refused(t, err, store.ErrConflict, opUpdate, s, "web")
			refused(t, errOf(s.Delete(patient(t), "web", store.IfUID(uid))), store.ErrConflict, opDelete, s, "web")
		}
		same(t, "the object", get(t, s, "web"), o)
		o.Value.Size = 10
		_, err := s.Update(patient(t), o, store.IfUID(o.UID))
		must(t, err)
		must(t, errOf(s.Delete(patient(t), "web", store.IfUID(o.UID))))
	}},

	{"to Create, a missing object has version 0 and no UID", func(t testing.TB, db Database) {
		s := db.open("thing")
		_, err := s.Create(patient(t), object{Key: "web"}, store.IfVersion(1))
		refused(t, err, store.ErrConflict, opCreate, s, "web")
		_, err = s.Create(patient(t), object{Key: "web"}, store.IfUID("u"))
		refused(t, err, store.ErrConflict, opCreate, s, "web")
		_, err = s.Create(patient(t), object{Key: "web"}, store.IfVersion(0), store.IfUID(""))
		must(t, err)
	}},

	{"all preconditions must hold", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web")
		good := []store.Precondition{store.IfVersion(o.Version), store.IfUID(o.UID), store.IfTerm("lease", 3), {}}
		for _, bad := range []store.Precondition{store.IfVersion(o.Version + 1), store.IfUID("x")} {
			for at := range len(good) + 1 {
				pre := append(append(append([]store.Precondition{}, good[:at]...), bad), good[at:]...)
				refused(t, errOf(s.Delete(patient(t), "web", pre...)), store.ErrConflict, opDelete, s, "web")
			}
		}
		must(t, errOf(s.Delete(patient(t), "web", good...)))
	}},

	{"a write of an older term is fenced", func(t testing.TB, db Database) {
		s, other := db.open("thing"), db.open("other")
		write := func(term uint64) error {
			o := get(t, s, "web")
			o.Value.Size++
			_, err := s.Update(patient(t), o, store.IfTerm("lease", term))
			return err
		}
		create(t, s, "web")
		must(t, write(5))
		must(t, write(5))
		must(t, write(7))
		o := get(t, s, "web")
		for _, term := range []uint64{0, 5, 6} {
			e := refused(t, write(term), store.ErrFenced, opUpdate, s, "web")
			if e.HaveTerm != 7 || e.WantTerm != term {
				t.Fatalf("the error has the terms %d and %d, want 7 and %d", e.HaveTerm, e.WantTerm, term)
			}
			_, err := other.Create(patient(t), object{Key: "new"}, store.IfTerm("lease", term))
			refused(t, err, store.ErrFenced, opCreate, other, "new")
			refused(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", term))), store.ErrFenced, opDelete, s, "web")
			refused(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", 9), store.IfTerm("lease", term))), store.ErrFenced, opDelete, s, "web")
		}
		same(t, "the object", get(t, s, "web"), o)
		must(t, write(7))
		grow(t, s, "web") // a write without a term is not checked
		_, err := other.Create(patient(t), object{Key: "new"}, store.IfTerm("lease", 8))
		must(t, err)
		refused(t, write(7), store.ErrFenced, opUpdate, s, "web")
		must(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", 9))))
		refused(t, errOf(other.Delete(patient(t), "new", store.IfTerm("lease", 8))), store.ErrFenced, opDelete, other, "new")
	}},

	{"an accepted write records its term even if it changes nothing", func(t testing.TB, db Database) {
		s := db.open("thing")
		o := create(t, s, "web", "dns")
		_, err := s.Create(patient(t), o, store.IfTerm("lease", 9))
		refused(t, err, store.ErrExists, opCreate, s, "web")
		refused(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", 9), store.IfUID("x"))), store.ErrConflict, opDelete, s, "web")
		_, err = s.Update(patient(t), o, store.IfTerm("lease", 2))
		must(t, err)
		_, err = s.Update(patient(t), o, store.IfTerm("lease", 1))
		refused(t, err, store.ErrFenced, opUpdate, s, "web")
		must(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", 3))))
		refused(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", 5), store.IfTerm("lease", 4))), store.ErrFenced, opDelete, s, "web")
		must(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", 5), store.IfTerm("other", 4))))
		refused(t, errOf(s.Delete(patient(t), "web", store.IfTerm("lease", 4))), store.ErrFenced, opDelete, s, "web")
	}},

	{"ErrFenced takes precedence over ErrExists and ErrNotFound, and these over ErrConflict", func(t testing.TB, db Database) {
		s := db.open("thing")
		_, err := s.Create(patient(t), object{Key: "web"}, store.IfTerm("lease", 2))
		must(t, err)
		stale := []store.Precondition{store.IfTerm("lease", 1), store.IfVersion(1000), store.IfUID("x")}
		_, err = s.Create(patient(t), object{Key: "web"}, stale...)
		refused(t, err, store.ErrFenced, opCreate, s, "web")
		_, err = s.Update(patient(t), object{Key: "gone"}, stale...)
		refused(t, err, store.ErrFenced, opUpdate, s, "gone")
		refused(t, errOf(s.Delete(patient(t), "web", stale...)), store.ErrFenced, opDelete, s, "web")
		_, err = s.Create(patient(t), object{Key: "web"}, stale[1:]...)
		refused(t, err, store.ErrExists, opCreate, s, "web")
		_, err = s.Update(patient(t), object{Key: "gone"}, stale[1:]...)
		refused(t, err, store.ErrNotFound, opUpdate, s, "gone")
		refused(t, errOf(s.Delete(patient(t), "gone", stale[1:]...)), store.ErrNotFound, opDelete, s, "gone")
	}},
}
