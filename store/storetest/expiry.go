package storetest

import (
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// expire makes the backend forget, or skips the case.
func (db Database) expire(t testing.TB, s store.Store[Thing]) {
	t.Helper()
	if db.Expire == nil {
		t.Skip("the backend cannot be made to forget")
	}
	must(t, db.Expire(s.Kind()))
}

var expiryCases = []testCase{
	{"a watch from before the history expires, and a list helps", func(t testing.TB, db Database) {
		s := db.open("thing")
		create(t, s, "web")
		from := list(t, s).Version
		grow(t, s, "web")
		db.expire(t, s)
		for _, after := range []informer.Version{0, from} {
			err := watch(t, patient(t), s, after).ends()
			refused(t, err, store.ErrExpired, store.OpWatch, s, "")
		}
		w := watch(t, patient(t), s, list(t, s).Version)
		w.sees(informer.Modified, grow(t, s, "web"))
	}},

	{"a slow watch whose history is forgotten skips nothing before it expires", func(t testing.TB, db Database) {
		s := db.open("thing")
		first := create(t, s, "web")
		w := watch(t, patient(t), s, 0)
		w.sees(informer.Added, first)
		second := grow(t, s, "web")
		w.sees(informer.Modified, second)
		last := grow(t, s, "web")
		db.expire(t, s)

		for size := second.Value.Size; size < last.Value.Size; {
			e, err, ok := w.pull()
			switch {
			case !ok:
				t.Fatalf("the watch stopped without an error")
			case err != nil: // it had not fetched the rest before the history was cut
				refused(t, err, store.ErrExpired, store.OpWatch, s, "")
				return
			case e.Type == informer.Bookmark && e.Version >= last.Version:
				t.Fatalf("a bookmark of version %d passes version %d, which was not told", e.Version, last.Version)
			case e.Type == informer.Bookmark:
			case strings.HasPrefix(e.Object.Key, "filler"):
				t.Fatalf("the watch tells of %s, and has left out version %d", e.Object.Key, last.Version)
			default:
				if size++; e.Object.Value.Size != size {
					t.Fatalf("the watch tells of size %d, and %d comes next", e.Object.Value.Size, size)
				}
			}
		}
	}},
}
