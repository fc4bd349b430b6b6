package informertest

import (
	"testing"

	"github.com/setpoint-go/setpoint/informer"
)

func equalCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"an object is equal to itself in another list, and to no other state", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			equaler, ok := s.Source.(informer.Equaler[T])
			if !ok {
				t.Skip("the source does not implement informer.Equaler, so a relist may be reported as updates of all objects")
			}
			w.put("a")
			w.put("b")
			one := w.object("a")
			if !equaler.Equal(one, w.object("a")) {
				t.Fatalf("Equal returns false for two lists of the same state: a relist is reported as an update of every object")
			}
			w.put("b")
			if !equaler.Equal(one, w.object("a")) {
				t.Fatalf("Equal returns false for an object after another one changed")
			}
			w.put("a")
			if two := w.object("a"); equaler.Equal(one, two) || equaler.Equal(two, one) {
				t.Fatalf("Equal returns true for two states of an object: a relist loses the update")
			}
		}},
	}
}

// object lists, and returns the object of the given name.
func (w *world[T]) object(name string) T {
	w.t.Helper()
	list, err := w.Source.List(w.t.Context())
	w.must(err)
	for _, obj := range list.Items {
		if n, _ := w.Read(obj); n == name {
			return obj
		}
	}
	w.t.Fatalf("the list of version %d has no object %s", list.Version, name)
	panic("unreachable")
}
