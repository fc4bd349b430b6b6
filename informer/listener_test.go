package informer_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// object is the object of the tests of a listener. Rev is unique; Life is that of the creation.
type object struct{ Key, Life, Rev int }

// changing is the cache of an informer, which a test changes by hand.
type changing struct {
	in  *informer.Informer[int, object]
	rev int
}

func newChanging(t *testing.T) *changing {
	src := informertest.NewSource(func(o object) int { return o.Key })
	return &changing{in: must(informer.New(src, func(o object) int { return o.Key }, informer.Config{
		OnError: func(err error) { t.Error(err) },
	}))}
}

// put creates or updates an object.
func (c *changing) put(key int) informer.Change[int, object] {
	c.rev++
	now := object{key, c.rev, c.rev}
	if old, existed := c.in.Get(key); existed {
		now.Life = old.Life
	}
	return informer.Put(c.in, now)
}

// remove deletes an object, whose last state the cache has not seen unless the deletion is missed. It returns the change, if there is one.
func (c *changing) remove(key int, missed bool) []informer.Change[int, object] {
	final, _ := c.in.Get(key)
	if final.Key = key; !missed {
		c.rev++
		final.Rev = c.rev
	}
	return informer.Delete(c.in, final, missed)
}

// driven is a handler whose changes a test passes on, and whose calls a test makes.
type driven interface {
	informer.Registration
	Join()
	Add(...informer.Change[int, object])
	Deliver() bool
	AddNext() bool
	AddFlush() chan struct{}
	Pending() iter.Seq2[int, informer.Item[object]]
	CheckInvariants() error
}

// log is a handler that records its calls.
func log(calls *[]string) informer.Handler[int, object] {
	add := func(format string, args ...any) { *calls = append(*calls, fmt.Sprintf(format, args...)) }
	return informer.Handler[int, object]{
		OnAdd:    func(o object, initial bool) { add("add %d.%d %t", o.Key, o.Rev, initial) },
		OnUpdate: func(old, o object) { add("update %d.%d-%d", o.Key, old.Rev, o.Rev) },
		OnResync: func(o object) { add("resync %d.%d", o.Key, o.Rev) },
		OnDelete: func(d cache.Tombstone[int, object]) { add("delete %d.%d %t", d.Key, d.Object.Rev, d.FinalStateUnknown) },
	}
}

func TestSyncedWhenNoInitialObjectIsLeft(t *testing.T) {
	c := newChanging(t)
	l := informer.NewListener(c.in, informer.Handler[int, object]{})
	l.Join()
	assert.True(t, broadcast.IsClosed(l.Synced()), "there is none")

	c.put(1)
	c.put(2)
	var calls []string
	l = informer.NewListener(c.in, log(&calls))
	l.Join()
	assert.False(t, broadcast.IsClosed(l.Synced()))
	deleted := c.remove(2, true)
	l.Add(append(deleted, c.put(3))...)
	assert.True(t, l.Deliver())
	assert.False(t, broadcast.IsClosed(l.Synced()), "its turn has not come")
	assert.True(t, l.Deliver())
	assert.True(t, broadcast.IsClosed(l.Synced()))
	assert.False(t, l.Deliver())
	assert.Equal(t, []string{"add 1.1 true", "add 3.3 false"}, calls)
}

func TestSyncedAfterLastInitialObject(t *testing.T) {
	c := newChanging(t)
	c.put(1)
	l := informer.NewListener(c.in, informer.Handler[int, object]{OnAdd: func(object, bool) {}})
	l.Join()
	assert.True(t, l.Deliver())
	assert.True(t, broadcast.IsClosed(l.Synced()))
}

func TestFilterMayRemoveItsHandler(t *testing.T) {
	var calls []string
	for _, deliver := range []func(c *changing, l driven){
		func(c *changing, l driven) {
			c.put(1)
			c.put(1)
			l.Join()
			assert.False(t, l.Deliver(), "of an add")
		},
		func(c *changing, l driven) {
			l.Join()
			l.Add(c.put(1))
			assert.True(t, l.Deliver())
			l.Add(c.put(1))
			assert.False(t, l.Deliver(), "of an update")
		},
		func(c *changing, l driven) {
			l.Join()
			l.Add(c.put(1))
			assert.True(t, l.Deliver())
			l.Add(c.remove(1, false)...)
			assert.False(t, l.Deliver(), "of a deletion")
		},
	} {
		h := log(&calls)
		var l driven
		h.Filter = func(o object) bool {
			if o.Rev == 2 {
				l.Remove()
			}
			return true
		}
		c := newChanging(t)
		l = informer.NewListener(c.in, h)
		deliver(c, l)
	}
	assert.Equal(t, []string{"add 1.1 false", "add 1.1 false"}, calls)
}

func TestFlushEndsAfterPendingCallsReturn(t *testing.T) {
	c := newChanging(t)
	var calls []string
	l := informer.NewListener(c.in, log(&calls))
	l.Join()
	assert.True(t, broadcast.IsClosed(l.AddFlush()), "nothing is pending")
	l.Add(c.put(1), c.put(2))
	two := l.AddFlush()
	l.Add(c.put(3))
	three, withdrawn := l.AddFlush(), l.AddFlush()
	l.DropFlush(withdrawn)
	assert.Equal(t, 2, l.Flushes())
	l.Deliver()
	assert.False(t, broadcast.IsClosed(two))
	l.Deliver()
	assert.True(t, broadcast.IsClosed(two))
	assert.False(t, broadcast.IsClosed(three))
	l.Deliver()
	assert.True(t, broadcast.IsClosed(three))
	assert.False(t, broadcast.IsClosed(withdrawn))

	l.Add(c.put(4))
	merged := l.AddFlush()
	deleted := c.remove(4, true)
	l.Add(deleted...) // it was created and deleted: no call is due
	assert.False(t, l.Deliver())
	assert.True(t, broadcast.IsClosed(merged))
}

func TestPendingEventsReleaseMemory(t *testing.T) {
	c := newChanging(t)
	l := informer.NewListener(c.in, informer.Handler[int, object]{})
	l.Join()
	for key := range 20 * informer.MaxBatch {
		l.Add(c.put(key))
	}
	assert.Equal(t, 20*informer.MaxBatch, l.Waiting())
	for l.Waiting() > 0 {
		l.Deliver()
	}
	items, chains := l.Kept()
	assert.LessOrEqual(t, items, informer.MaxBatch)
	assert.LessOrEqual(t, chains, 2*informer.MaxBatch)
}

func TestPendingEventsRarelyAllocate(t *testing.T) {
	allocs := testing.AllocsPerRun(3, func() { informer.FillAndDrain(4096) })
	assert.Less(t, allocs, 4096./20+20)
}

// listening is a cache that changes, and a handler that checks that each call follows from the ones before.
type listening struct {
	*changing
	t      *testing.T
	l      driven
	every  bool
	filter func(object) bool // nil is all
	joined bool
	tail   bool           // a call was made that was not for an initial object
	state  map[int]object // that was reported
	first  map[int]object // the cache when the handler joined
	calls  int
	want   int // with EveryEvent, the calls for all changes

	flush chan struct{}    // closed by the listener; nil if there is no flush
	until map[int]struct{} // the keys whose items were pending when the flush was added, and have been since

	deleted int // the key of the last OnDelete
}

func newListening(t *testing.T, every bool, filter func(object) bool) *listening {
	w := &listening{changing: newChanging(t), t: t, every: every, filter: filter, state: map[int]object{}}
	w.l = informer.NewListener(w.in, informer.Handler[int, object]{
		OnAdd: w.add, OnUpdate: w.update, OnResync: w.resync, OnDelete: w.delete, Filter: filter, EveryEvent: every,
	})
	return w
}

func (w *listening) passes(o object) bool { return w.filter == nil || w.filter(o) }

func (w *listening) add(o object, initial bool) {
	w.calls++
	_, reported := w.state[o.Key]
	assert.False(w.t, reported, "add of %v", o)
	assert.True(w.t, w.passes(o))
	if initial {
		assert.False(w.t, w.tail, "initial after others")
		assert.Contains(w.t, w.first, o.Key)
	} else {
		w.tail = true
	}
	w.state[o.Key] = o
}

func (w *listening) update(old, o object) {
	w.calls, w.tail = w.calls+1, true
	assert.Equal(w.t, w.state[o.Key], old)
	assert.True(w.t, w.passes(o))
	assert.Equal(w.t, old.Life, o.Life, "an update between two incarnations")
	assert.Less(w.t, old.Rev, o.Rev)
	w.state[o.Key] = o
}

func (w *listening) resync(o object) {
	w.calls, w.tail = w.calls+1, true
	assert.Equal(w.t, w.state[o.Key], o, "a resync with another state")
}

func (w *listening) delete(d cache.Tombstone[int, object]) {
	w.calls, w.tail, w.deleted = w.calls+1, true, d.Key
	last, reported := w.state[d.Key]
	assert.True(w.t, reported, "delete of %v", d)
	assert.Equal(w.t, last, d.Previous)
	assert.Equal(w.t, last.Life, d.Object.Life)
	assert.GreaterOrEqual(w.t, d.Object.Rev, last.Rev)
	assert.True(w.t, w.passes(d.Object))
	delete(w.state, d.Key)
}

// pass passes changes to the listener after the join; before it, they are in the snapshot.
func (w *listening) pass(changes ...informer.Change[int, object]) {
	if w.joined {
		w.l.Add(changes...)
		w.want += len(changes)
	}
}

func (w *listening) join() {
	w.joined, w.first = true, maps.Collect(w.in.All())
	w.want += len(w.first)
	w.l.Join()
}

func (w *listening) do(rnd *rand.Rand) {
	key := rnd.IntN(6)
	switch action := rnd.IntN(20); {
	case action < 7:
		w.pass(w.put(key))
	case action < 11:
		w.pass(w.remove(key, action < 9)...)
	case action < 12:
		for piece := range informer.Resyncs(w.in, 2) {
			assert.LessOrEqual(w.t, len(piece), 2)
			w.pass(piece...)
		}
	case !w.joined:
		w.join()
	default:
		before, until := w.calls, maps.Clone(w.until)
		made := w.l.Deliver()
		assert.LessOrEqual(w.t, w.calls-before, 1)
		assert.Equal(w.t, made, w.calls > before)
		w.checkFlush(until)
		if !w.every && w.flush == nil && w.l.HasSynced() {
			w.until = map[int]struct{}{}
			for key := range w.l.Pending() {
				w.until[key] = struct{}{}
			}
			w.flush = w.l.AddFlush()
			w.checkFlush(w.until)
		}
	}
}

// forgetDone drops what is no longer pending from what the flush waits for. If the key waits again later, that is another item.
func (w *listening) forgetDone() {
	pending := maps.Collect(w.l.Pending())
	maps.DeleteFunc(w.until, func(key int, _ struct{}) bool { _, waits := pending[key]; return !waits })
}

// checkFlush checks that the flush has ended exactly if the calls for all that it waits for have returned. Before the last Deliver, it waited
// for before.
func (w *listening) checkFlush(before map[int]struct{}) {
	w.forgetDone()
	if w.flush == nil {
		return
	}
	ended := broadcast.IsClosed(w.flush)
	_, waits := before[w.deleted]
	switch addNext := w.l.AddNext(); {
	case len(w.until) > 0, addNext && waits:
		assert.False(w.t, ended)
	case !addNext: // else that call is for a later item
		assert.True(w.t, ended)
	}
	if ended {
		w.flush = nil
	}
}

func (w *listening) check(every bool) error {
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
		w := newListening(t, every, filter)
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
		want := maps.Collect(w.in.All())
		maps.DeleteFunc(want, func(_ int, o object) bool { return !w.passes(o) })
		require.Equal(t, want, w.state, "seed %d", seed)
		require.True(t, w.l.HasSynced())
		if every {
			require.Equal(t, w.want, w.calls, "seed %d: each change is a call", seed)
		}
		if t.Failed() {
			t.Fatal("seed ", seed)
		}
	}
}
