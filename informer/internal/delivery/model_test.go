package delivery_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer/internal/delivery"
)

// world is a cache that changes, and a handler that checks that each call follows from the ones before.
type world struct {
	*changed
	t      *testing.T
	l      *delivery.Listener[int, object]
	every  bool
	filter func(object) bool // nil is all
	joined bool
	tail   bool // a call was made that was not for an initial object
	known  map[int]object
	first  map[int]object // the cache when the handler joined
	calls  int
	want   int // with EveryEvent, the calls for what was told

	asked chan struct{}    // closed by the listener; nil if nothing was asked
	until map[int]struct{} // the keys whose items were pending then, and have been since

	deleted int // the key of the last OnDelete
}

func newWorld(t *testing.T, every bool, filter func(object) bool) *world {
	w := &world{changed: newChanged(), t: t, every: every, filter: filter, known: map[int]object{}}
	w.l = w.listener(delivery.Handler[int, object]{OnAdd: w.add, OnUpdate: w.update, OnResync: w.resync, OnDelete: w.delete, Filter: filter, EveryEvent: every}, noError(t))
	return w
}

func (w *world) passes(o object) bool { return w.filter == nil || w.filter(o) }

func (w *world) add(o object, initial bool) {
	w.calls++
	_, knew := w.known[o.Key]
	if knew {
		w.t.Errorf("add of %v: knew is true", o)
	}
	if !w.passes(o) {
		w.t.Error("w.passes(o) is false")
	}
	if initial {
		if w.tail {
			w.t.Error("initial after others: w.tail is true")
		}
		if _, ok := w.first[o.Key]; !ok {
			w.t.Errorf("w.first = %v, want it to contain %v", w.first, o.Key)
		}
	} else {
		w.tail = true
	}
	w.known[o.Key] = o
}

func (w *world) update(old, o object) {
	w.calls, w.tail = w.calls+1, true
	if old != w.known[o.Key] {
		w.t.Errorf("old = %+v, want %+v", old, w.known[o.Key])
	}
	if !w.passes(o) {
		w.t.Error("w.passes(o) is false")
	}
	if o.Life != old.Life {
		w.t.Errorf("an update between two incarnations: o.Life = %v, want %v", o.Life, old.Life)
	}
	if old.Rev >= o.Rev {
		w.t.Errorf("old.Rev = %v, want less than %v", old.Rev, o.Rev)
	}
	w.known[o.Key] = o
}

func (w *world) resync(o object) {
	w.calls, w.tail = w.calls+1, true
	if o != w.known[o.Key] {
		w.t.Errorf("a resync with another state: o = %+v, want %+v", o, w.known[o.Key])
	}
}

func (w *world) delete(d cache.Tombstone[int, object]) {
	w.calls, w.tail, w.deleted = w.calls+1, true, d.Key
	known, knew := w.known[d.Key]
	if !knew {
		w.t.Errorf("delete of %v: knew is false", d)
	}
	if d.Object.Life != known.Life {
		w.t.Errorf("d.Object.Life = %v, want %v", d.Object.Life, known.Life)
	}
	if d.Object.Rev < known.Rev {
		w.t.Errorf("d.Object.Rev = %v, want at least %v", d.Object.Rev, known.Rev)
	}
	if !w.passes(d.Object) {
		w.t.Error("w.passes(d.Object) is false")
	}
	delete(w.known, d.Key)
}

// tell tells changes after the join; before it, they are in the snapshot.
func (w *world) tell(changes ...delivery.Change[int, object]) {
	if w.joined {
		w.l.Tell(changes)
		w.want += len(changes)
	}
}

func (w *world) join() {
	w.joined, w.first = true, maps.Collect(w.cache.All())
	w.want += len(w.first)
	begin(w.t, w.changed, w.l)
}

func (w *world) do(rnd *rand.Rand) {
	key := rnd.IntN(6)
	switch action := rnd.IntN(20); {
	case action < 7:
		w.tell(w.put(key))
	case action < 11:
		if gone, existed := w.remove(key, action < 9); existed {
			w.tell(gone)
		}
	case action < 12:
		for piece := range delivery.Resync(w.cache.All(), w.seed, 2) {
			if got := len(piece); got > 2 {
				w.t.Errorf("len(piece) = %v, want at most 2", got)
			}
			w.tell(piece...)
		}
	case !w.joined:
		w.join()
	default:
		before, until := w.calls, maps.Clone(w.until)
		made := w.l.Deliver()
		if got := w.calls - before; got > 1 {
			w.t.Errorf("w.calls-before = %v, want at most 1", got)
		}
		if got := w.calls > before; got != made {
			w.t.Errorf("w.calls > before = %v, want %v", got, made)
		}
		w.checkAnswer(until)
		if !w.every && w.asked == nil && closed(w.l.Synced()) {
			w.asked, w.until = make(chan struct{}), map[int]struct{}{}
			for key := range w.l.Pending() {
				w.until[key] = struct{}{}
			}
			w.l.Ask(w.asked)
			w.checkAnswer(w.until)
		}
	}
}

// forgetDone drops what is no longer pending from what an answer waits for. If the key waits again later, that is another item.
func (w *world) forgetDone() {
	pending := maps.Collect(w.l.Pending())
	maps.DeleteFunc(w.until, func(key int, _ struct{}) bool { _, waits := pending[key]; return !waits })
}

// checkAnswer checks that the answer has come exactly if the calls for all that it waits for have returned. Before the last Deliver, it waited
// for before.
func (w *world) checkAnswer(before map[int]struct{}) {
	w.forgetDone()
	if w.asked == nil {
		return
	}
	answered := closed(w.asked)
	_, waits := before[w.deleted]
	switch owes := w.l.Owes(); {
	case len(w.until) > 0, owes && waits:
		if answered {
			w.t.Error("answered is true")
		}
	case !owes: // else the call that is owed is for a later item
		if !answered {
			w.t.Error("answered is false")
		}
	}
	if answered {
		w.asked = nil
	}
}

func (w *world) check(every bool) error {
	if err := w.l.CheckInvariants(); err != nil {
		return err
	}
	pending := map[int]bool{}
	for key := range w.l.Pending() {
		if pending[key] && !every {
			return fmt.Errorf("key %d is pending twice", key)
		}
		pending[key] = true
	}
	return nil
}

func TestHandlerFollowsCacheInAnyOrder(t *testing.T) {
	small := func(o object) bool { return o.Rev%3 != 0 }
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		every := seed%4 == 0
		var filter func(object) bool
		if seed%2 == 1 {
			filter = small
		}
		w := newWorld(t, every, filter)
		for range 10 + rnd.IntN(60) {
			w.do(rnd)
			w.forgetDone()
			if err := w.check(every); err != nil {
				t.Fatalf("seed %d: w.check(every): %v", seed, err)
			}
		}
		if !w.joined {
			w.join()
		}
		for w.l.Deliver() {
		}
		want := maps.Collect(w.cache.All())
		maps.DeleteFunc(want, func(_ int, o object) bool { return !w.passes(o) })
		if diff := cmp.Diff(want, w.known); diff != "" {
			t.Fatalf("seed %d: w.known mismatch (-want +got):\n%s", seed, diff)
		}
		if !closed(w.l.Synced()) {
			t.Fatal("closed(w.l.Synced()) is false")
		}
		if every {
			if w.calls != w.want {
				t.Fatalf("seed %d: each change is a call: w.calls = %v, want %v", seed, w.calls, w.want)
			}
		}
		if t.Failed() {
			t.Fatal("seed ", seed)
		}
	}
}

// A resync in pieces delivers every object once, in cache order. Each piece shows the cache at the time of its
// delivery.
func TestResyncDeliversEveryObjectInPieces(t *testing.T) {
	c := newChanged()
	for key := range 7 {
		c.put(key)
	}
	var keys, sizes []int
	for piece := range delivery.Resync(c.cache.All(), c.seed, 3) {
		sizes = append(sizes, len(piece))
		for _, change := range piece {
			if change.New != change.Old {
				t.Errorf("change.New = %+v, want %+v", change.New, change.Old)
			}
			if !change.Resync {
				t.Error("change.Resync is false")
			}
			keys = append(keys, change.Key)
		}
	}
	if want := ([]int{3, 3, 1}); !slices.Equal(sizes, want) {
		t.Errorf("sizes = %v, want %v", sizes, want)
	}
	if !slices.IsSorted(keys) {
		t.Errorf("keys = %v, want them sorted", keys)
	}
	if len(keys) != 7 {
		t.Errorf("len(keys) = %d, want 7: %v", len(keys), keys)
	}
}
