package storetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// outrun makes as many changes as the backend says that it takes to expire what was before.
func outrun(t testing.TB, db Database, s store.Store[Thing]) {
	t.Helper()
	if db.History == 0 {
		t.Skip("the backend makes no promise to expire anything")
	}
	for range db.History {
		grow(t, s, "web")
	}
}

var expiryCases = []testCase{
	{"a watch from before the history expires, and a list helps", func(t testing.TB, db Database) {
		s := db.Open("thing")
		create(t, s, "web")
		from := list(t, s).Version
		grow(t, s, "web")
		outrun(t, db, s)
		for _, after := range []informer.Version{0, from} {
			err := watch(t, patient(t), s, after).ends()
			refused(t, err, store.ErrExpired, store.OpWatch, s, "")
		}
		w := watch(t, patient(t), s, list(t, s).Version)
		w.sees(informer.Modified, grow(t, s, "web"))
	}},

	{"a watch that is too slow expires in the middle, and skips nothing before", func(t testing.TB, db Database) {
		s := db.Open("thing")
		first := create(t, s, "web")
		w := watch(t, patient(t), s, 0)
		w.sees(informer.Added, first)
		second := grow(t, s, "web")
		w.sees(informer.Modified, second)
		grow(t, s, "web")
		outrun(t, db, s)

		size := second.Value.Size
		for {
			e, err, ok := w.pull()
			if !ok {
				t.Fatalf("the watch stopped without an error")
			}
			if err != nil {
				refused(t, err, store.ErrExpired, store.OpWatch, s, "")
				break
			}
			if e.Type == informer.Bookmark {
				continue
			}
			if size++; e.Object.Value.Size != size { // it may hold a few events, but none may be missing
				t.Fatalf("the watch tells of size %d where %d comes next", e.Object.Value.Size, size)
			}
		}
		if size > get(t, s, "web").Value.Size-1 {
			t.Fatalf("the watch told everything: it did not expire")
		}
	}},
}
