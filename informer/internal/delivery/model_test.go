package delivery_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	assert.False(w.t, knew, "add of %v", o)
	assert.True(w.t, w.passes(o))
	if initial {
		assert.False(w.t, w.tail, "initial after others")
		assert.Contains(w.t, w.first, o.Key)
	} else {
		w.tail = true
	}
	w.known[o.Key] = o
}

func (w *world) update(old, o object) {
	w.calls, w.tail = w.calls+1, true
	assert.Equal(w.t, w.known[o.Key], old)
	assert.True(w.t, w.passes(o))
	assert.Equal(w.t, old.Life, o.Life, "an update between two incarnations")
	assert.Less(w.t, old.Rev, o.Rev)
	w.known[o.Key] = o
}

func (w *world) resync(o object) {
	w.calls, w.tail = w.calls+1, true
	assert.Equal(w.t, w.known[o.Key], o, "a resync with another state")
}

func (w *world) delete(d cache.Tombstone[int, object]) {
	w.calls, w.tail, w.deleted = w.calls+1, true, d.Key
	known, knew := w.known[d.Key]
	assert.True(w.t, knew, "delete of %v", d)
	assert.Equal(w.t, known.Life, d.Object.Life)
	assert.GreaterOrEqual(w.t, d.Object.Rev, known.Rev)
	assert.True(w.t, w.passes(d.Object))
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
			assert.LessOrEqual(w.t, len(piece), 2)
			w.tell(piece...)
		}
	case !w.joined:
		w.join()
	default:
		before, until := w.calls, maps.Clone(w.until)
		made := w.l.Deliver()
		assert.LessOrEqual(w.t, w.calls-before, 1)
		assert.Equal(w.t, made, w.calls > before)
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
		assert.False(w.t, answered)
	case !owes: // else the call that is owed is for a later item
		assert.True(w.t, answered)
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
			require.NoError(t, w.check(every), "seed %d", seed)
		}
		if !w.joined {
			w.join()
		}
		for w.l.Deliver() {
		}
		want := maps.Collect(w.cache.All())
		maps.DeleteFunc(want, func(_ int, o object) bool { return !w.passes(o) })
		require.Equal(t, want, w.known, "seed %d", seed)
		require.True(t, closed(w.l.Synced()))
		if every {
			require.Equal(t, w.want, w.calls, "seed %d: each change is a call", seed)
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
			assert.Equal(t, change.Old, change.New)
			assert.True(t, change.Resync)
			keys = append(keys, change.Key)
		}
	}
	assert.Equal(t, []int{3, 3, 1}, sizes)
	assert.True(t, slices.IsSorted(keys))
	assert.Len(t, keys, 7)
}
