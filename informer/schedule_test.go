package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// action is one line of a schedule. Actions of different parts touch nothing in common, so that their order makes no
// difference, unless the table meets says so.
type action struct {
	name     string
	part     part
	key      byte                 // of the object that changes, if one does
	possible func(*schedule) bool // it would do something
	do       func(*schedule)
}

type part int

const (
	theSource  part = iota // what changes in the source
	theWatch               // the reflector reads the source
	theCache               // what was read is applied, handlers join
	theFirst               // the first handler is called
	theSecond              // the second one is
	theMembers             // handlers come and go
)

// meets holds the parts that touch something in common, the lower one first.
var meets = map[[2]part]bool{
	{theSource, theWatch}: true, {theWatch, theCache}: true, {theCache, theFirst}: true, {theCache, theSecond}: true,
	{theCache, theMembers}: true, {theFirst, theMembers}: true, {theSecond, theMembers}: true,
}

// meet reports whether the order of a and b makes a difference. That of changes of two keys is taken to make none.
func meet(a, b *action) bool {
	if a.key != 0 && b.key != 0 {
		return a.key == b.key
	}
	return a.part == b.part || meets[[2]part{a.part, b.part}] || meets[[2]part{b.part, a.part}]
}

func exists(name string) func(*schedule) bool {
	return func(w *schedule) bool { _, ok := w.src.now()[name]; return ok }
}

// behind reports that the source has n events that the reflector has not seen, and watches for.
func behind(w *schedule, n int) bool {
	seen, watches := w.driver.Seen()
	return watches && seen >= w.src.missing && int(w.src.version()-seen) >= n
}

// nth returns the nth handler of those that were not removed, and its number, or nil.
func nth(w *schedule, n int) (*view, int) {
	for i, v := range w.joined {
		if v.removed {
			continue
		}
		if n == 0 {
			return v, i
		}
		n--
	}
	return nil, 0
}

func deliver(n int) action {
	part := theFirst + part(min(n, 1))
	return action{fmt.Sprintf("handler %d returns", n), part, 0, func(w *schedule) bool {
		v, i := nth(w, n)
		return v != nil && !v.inline && w.driver.HasPending(i)
	}, func(w *schedule) {
		_, i := nth(w, n)
		w.driver.Deliver(i)
	}}
}

// actions is the alphabet of the schedules: the core, what else two keys and two handlers can meet, and the rest.
var actions = []action{
	{"put a", theSource, 'a', nil, func(w *schedule) { w.src.put("a") }},
	{"put b", theSource, 'b', nil, func(w *schedule) { w.src.put("b") }},
	{"delete a", theSource, 'a', exists("a"), func(w *schedule) { w.src.delete("a") }},
	{"delete b", theSource, 'b', exists("b"), func(w *schedule) { w.src.delete("b") }},
	{"compact", theSource, 0, func(w *schedule) bool { return behind(w, 1) }, func(w *schedule) { w.src.missing = w.src.version() }},
	{"list or watch", theWatch, 0, func(w *schedule) bool {
		seen, watches := w.driver.Seen()
		return !watches || w.src.version() > seen
	}, (*schedule).reflect},
	{"list at an older version", theWatch, 0, func(w *schedule) bool {
		seen, watches := w.driver.Seen()
		return !watches && seen > 1
	}, (*schedule).listOld},
	{"apply", theCache, 0, func(w *schedule) bool { return !w.driver.Idle() }, (*schedule).apply},
	deliver(0),
	{"another handler joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 2 }, func(w *schedule) { w.join(nil) }},
	deliver(1),

	{"recreate a", theSource, 'a', exists("a"), func(w *schedule) { w.src.delete("a"); w.src.put("a") }},
	{"the watch breaks after an event", theWatch, 0, func(w *schedule) bool { return behind(w, 2) }, func(w *schedule) {
		w.src.limit = 1
		w.reflect()
		w.src.limit = -1
	}},
	{"resync", theCache, 0, func(w *schedule) bool { return len(w.joined) > 0 && w.in.Indexer().Len() > 0 }, (*schedule).resync},
	{"a handler that filters joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 2 }, func(w *schedule) { w.join(odd) }},
	{"an inline handler joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 2 }, func(w *schedule) {
		w.add(&view{every: true, inline: true})
	}},
	{"the first handler is removed", theMembers, 0, func(w *schedule) bool { return len(w.views) > 0 }, func(w *schedule) { w.remove(w.views[0]) }},

	{"a handler of every event joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 3 }, func(w *schedule) { w.add(&view{every: true}) }},
	{"an inline handler that filters joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 3 }, func(w *schedule) {
		w.add(&view{every: true, inline: true, filter: odd})
	}},
	{"bookmark", theSource, 0, nil, func(w *schedule) { w.src.bookmark() }},
	{"the watch breaks at once", theWatch, 0, nil, func(w *schedule) { w.src.limit = 0; w.reflect(); w.src.limit = -1 }},
	{"the watch breaks after two events", theWatch, 0, nil, func(w *schedule) { w.src.limit = 2; w.reflect(); w.src.limit = -1 }},
	{"put c", theSource, 'c', nil, func(w *schedule) { w.src.put("c") }},
	{"delete c", theSource, 'c', exists("c"), func(w *schedule) { w.src.delete("c") }},
	{"a third handler joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 3 }, func(w *schedule) { w.join(nil) }},
	deliver(2),
	{"the last handler is removed", theMembers, 0, func(w *schedule) bool { return len(w.views) > 1 }, func(w *schedule) { w.remove(w.views[len(w.views)-1]) }},
	{"read one thing", theWatch, 0, func(w *schedule) bool {
		seen, watches := w.driver.Seen()
		return !watches || w.src.version() > seen
	}, (*schedule).readOne},
	{"apply one thing", theCache, 0, func(w *schedule) bool { return !w.driver.Idle() }, (*schedule).applyOne},
	{"the first handler removes itself when it is called", theMembers, 0, func(w *schedule) bool {
		return len(w.views) > 0 && !w.views[0].leaves
	}, func(w *schedule) { w.views[0].leaves = true }},
}

// The lengths of the alphabets of the exhaustive schedules.
const core, full = 11, 17

// play takes the steps, and checks what comes of each but the first ones, which were checked before. It returns the number of
// steps that it took before one that was not possible, and what is wrong. Steps that are not possible are left out if skip.
func play(w *schedule, steps []byte, checked int, skip bool) (taken int, wrong string) {
	defer w.driver.Stop()
	for i, b := range steps {
		a := &actions[int(b)%len(actions)]
		if a.possible != nil && !a.possible(w) {
			if skip {
				continue
			}
			return i, ""
		}
		a.do(w)
		if i < checked {
			continue
		}
		if wrong := w.check(); wrong != "" {
			return i, wrong
		}
	}
	return len(steps), w.settle()
}

// spell returns the names of the steps, for people.
func spell(steps []byte) string {
	names := make([]string, len(steps))
	for i, b := range steps {
		names[i] = actions[int(b)%len(actions)].name
	}
	return strings.Join(names, ", ")
}

// read is the opposite of spell.
func read(t testing.TB, story string) (steps []byte) {
	if story == "" {
		return nil
	}
	for name := range strings.SplitSeq(story, ", ") {
		i := slices.IndexFunc(actions, func(a action) bool { return a.name == name })
		require.GreaterOrEqual(t, i, 0, name)
		steps = append(steps, byte(i))
	}
	return steps
}

// inFullSwing is a beginning: two objects are in the cache and known to a handler, and another that filters has just
// joined.
func inFullSwing(w *schedule) {
	w.src.put("a")
	w.src.put("b")
	w.join(nil)
	w.reflect()
	w.apply()
	for w.driver.Deliver(0) {
	}
}

// TestEveryShortSchedule plays every schedule of six steps of the core on two keys, from an empty source that was never
// listed. It also plays those of five steps of the full alphabet, from there and from an informer in full swing: there, after the same four
// steps, it plays every third fifth step. SCHEDULE_DEPTH is another length for all of them, of which none is left out: seven takes a minute.
//
// It leaves out steps that would do nothing, schedules that differ from a played one only in the order of independent steps,
// and schedules in which a and b are exchanged. Shorter schedules are the beginnings of these.
func TestEveryShortSchedule(t *testing.T) {
	t.Parallel()
	fresh := func(w *schedule) { w.join(nil) }
	for _, c := range []struct {
		name                   string
		begin                  func(*schedule)
		alphabet, depth, every int
	}{
		{"of the core, from the beginning", fresh, core, 6, 1},
		{"from the beginning", fresh, full, 5, 1},
		{"in full swing", inFullSwing, full, 5, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if text := os.Getenv("SCHEDULE_DEPTH"); text != "" {
				var err error
				c.depth, err = strconv.Atoi(text)
				require.NoError(t, err)
				c.every = 1
			} else if testing.Short() || underRace {
				c.depth--
			}
			played, checked, siblings := 0, 0, 0
			steps := make([]byte, c.depth)
			for next := true; next; {
				n := canonical(steps)
				if siblings++; checked < c.depth-1 {
					siblings = 0 // the first with these steps before the last one
				}
				if n == c.depth && siblings%c.every == 0 {
					w := newSchedule(t)
					c.begin(w)
					var wrong string
					n, wrong = play(w, steps, checked, false)
					require.Empty(t, wrong, "after %s", spell(steps[:min(n+1, c.depth)]))
					played++
				}
				// Steps after a useless step are useless, too.
				checked, next = advance(steps, c.alphabet, min(n, c.depth-1))
			}
			t.Log(played, "schedules")
		})
	}
}

// canonical returns the number of steps before the first one that some other schedule takes in a better order.
func canonical(steps []byte) int {
	touched := false
	for i, b := range steps {
		a := &actions[b]
		if !touched && (a.name == "put b" || a.name == "delete b") {
			return i
		}
		touched = touched || strings.HasSuffix(a.name, " a")
		for j := i - 1; j >= 0; j-- {
			if c := &actions[steps[j]]; meet(a, c) {
				break
			} else if b < steps[j] {
				return i // a could come before c, and all that is between them
			}
		}
	}
	return len(steps)
}

// advance makes steps the next ones that differ at index i or before. It returns how many are the same, and false when there
// are none.
func advance(steps []byte, alphabet, i int) (same int, ok bool) {
	clear(steps[i+1:])
	for ; i >= 0; i-- {
		steps[i]++
		if int(steps[i]) < alphabet {
			return i, true
		}
		steps[i] = 0
	}
	return 0, false
}

// TestRandomSchedules plays 500 schedules of 60 steps, and 5,000 if SCHEDULE_DEPTH is set. SCHEDULE_SEED plays one again.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	schedules := 500
	switch {
	case os.Getenv("SCHEDULE_DEPTH") != "":
		schedules = 5000
	case testing.Short() || underRace:
		schedules = 200
	}
	seed := func(i int) string { return fmt.Sprint("schedule ", i) }
	if text := os.Getenv("SCHEDULE_SEED"); text != "" {
		schedules, seed = 1, func(int) string { return text }
	}
	for i := range schedules {
		var key [32]byte
		copy(key[:], seed(i))
		steps := make([]byte, 60)
		_, _ = rand.NewChaCha8(key).Read(steps) // never fails
		n, wrong := play(newSchedule(t), steps, 0, true)
		require.Empty(t, wrong, "SCHEDULE_SEED=%q, after %s", seed(i), spell(steps[:min(n+1, len(steps))]))
	}
}

// FuzzSchedules plays the bytes as steps.
func FuzzSchedules(f *testing.F) {
	for _, story := range []string{
		"",
		// One of two objects comes and goes.
		"another handler joins, put a, put b, list or watch, apply, handler 0 returns, put a, delete a, list or watch, apply",
		// Recreated while no watch was open, and an old list is rejected.
		"another handler joins, put a, list or watch, apply, handler 0 returns, put a, recreate a, compact, list or watch, list at an older version, list or watch, apply",
		// A filter, a resync, and a handler that goes.
		"a handler that filters joins, put a, list or watch, apply, put a, put a, the watch breaks after an event, another handler joins, apply, resync, the first handler is removed",
		// Three handlers, bookmarks, watches that break.
		"a third handler joins, put a, put c, list or watch, another handler joins, apply, bookmark, delete c, the watch breaks at once, the watch breaks after two events, a third handler joins, handler 2 returns, the last handler is removed",
		// A handler joins between changes that are applied together.
		"put a, list or watch, apply, put a, list or watch, a handler of every event joins, put b, delete b, list or watch, apply, handler 0 returns",
		// An inline handler joins, and one object is reported, then the others, and then the changes.
		"put a, put b, put c, list or watch, an inline handler joins, apply, put a, delete b, list or watch, apply, recreate a, list or watch, apply, resync",
		// An object leaves the filter before it is deleted.
		"a handler that filters joins, put a, list or watch, apply, handler 0 returns, put a, list or watch, apply, delete a, list or watch, apply",
		// An object was recreated, and the handler removes itself when the old one is reported as deleted.
		"another handler joins, put a, list or watch, apply, handler 0 returns, recreate a, list or watch, apply, the first handler removes itself when it is called, handler 0 returns",
	} {
		f.Add(read(f, story))
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 200 {
			t.Skip("nothing new arrives this late")
		}
		if n, wrong := play(newSchedule(t), steps, 0, true); wrong != "" {
			t.Fatalf("after %s: %s", spell(steps[:min(n+1, len(steps))]), wrong)
		}
	})
}

// The test checks after every step of a schedule:
//
//  1. The cache is exactly what the source was at Version: the changes up to it and none after, object by object.
//  2. Version never falls, and is never beyond what the source has said.
//  3. The calls of a handler for a key are an add, updates, a delete, and so on again; the old state of an update is what
//     it got last, and no state is older than the one before.
//  4. The calls that a handler got, with its pending ones, lead to the state of the cache: no change is lost, and none is reported
//     twice. A handler that joins late starts from exactly what the cache held then: nothing that was created after
//     AddHandler had returned is initial. One of every event gets each event that a watch has reported since.
//  5. A deletion that the source has reported is passed on as it was, and never hidden in an update. One that nobody watched is
//     reported as unknown, and as an update only when the key has come back in the same gap. No object is reported that does not
//     pass the filter of the handler.
//  6. A handler has synced when it has returned for every object that was there when it joined and is still waiting, and
//     not before. inInitialList is said of those objects only, and before anything else.
//  7. A list that is older than what was seen changes nothing, is reported, and is asked for again.
//  8. A resync changes neither the cache nor the version, and gives each handler each object once.
//  9. A handler has at most one pending item for each key that was reported or that exists. An inline one, once it has been called for
//     everything that was there when it joined, has none.
//  10. An index holds what one made now of the whole cache would hold.
//  11. A handler that was removed is not called again.
//
// At the end, when the source has been read and every handler has returned:
//
//  12. The version is that of the source, the cache and every handler are what the source is, and everybody has synced.

var errBroken = errors.New("the watch broke")

// ledger is a source that never blocks: a watch yields what there is and stops. It keeps every version of itself.
type ledger struct {
	events  []informer.Event[site] // the event at index v has version v+1
	states  []map[string]site      // the content at version v
	lives   map[string]int
	missing informer.Version // history up to here is forgotten
	limit   int              // the next watch breaks after as many events; negative is never
	old     informer.Version // the next list is of this version, if not 0
	ended   map[[2]any]bool  // the lives, by name and number, whose end a watch has reported
	born    map[[2]any]informer.Version
	watched []informer.Event[site] // what watches have reported
}

func newLedger() *ledger {
	return &ledger{states: []map[string]site{{}}, lives: map[string]int{}, limit: -1, ended: map[[2]any]bool{}, born: map[[2]any]informer.Version{}}
}

func (l *ledger) version() informer.Version { return informer.Version(len(l.events)) }

func (l *ledger) now() map[string]site { return l.states[len(l.events)] }

func (l *ledger) put(name string) {
	next := maps.Clone(l.now())
	ev := informer.Event[site]{Type: informer.Modified, Object: site{Name: name, Life: l.lives[name], Rev: len(l.events) + 1}}
	if _, exists := next[name]; !exists {
		ev.Type = informer.Added
		l.born[[2]any{name, l.lives[name]}] = l.version() + 1
	}
	next[name] = ev.Object
	l.record(ev, next)
}

func (l *ledger) delete(name string) {
	next := maps.Clone(l.now())
	obj := next[name]
	delete(next, name)
	l.lives[name]++
	l.record(informer.Event[site]{Type: informer.Deleted, Object: obj}, next)
}

func (l *ledger) bookmark() {
	l.record(informer.Event[site]{Type: informer.Bookmark}, l.now())
}

func (l *ledger) record(ev informer.Event[site], next map[string]site) {
	ev.Version = l.version() + 1
	l.events, l.states = append(l.events, ev), append(l.states, next)
}

func (l *ledger) List(context.Context) (informer.List[site], error) {
	list := informer.List[site]{Version: l.version()}
	if l.old > 0 {
		list.Version, l.old = l.old, 0
	}
	for _, name := range []string{"b", "a", "c"} { // in no order that means something
		if s, ok := l.states[list.Version][name]; ok {
			list.Items = append(list.Items, s)
		}
	}
	return list, nil
}

func (l *ledger) Watch(_ context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return func(yield func(informer.Event[site], error) bool) {
		if after < l.missing {
			yield(informer.Event[site]{}, informer.ErrExpired)
			return
		}
		for _, ev := range l.events[after:] {
			if l.limit == 0 {
				l.limit = -1
				yield(informer.Event[site]{}, errBroken)
				return
			}
			l.limit--
			if ev.Type == informer.Deleted {
				l.ended[[2]any{ev.Object.Name, ev.Object.Life}] = true
			}
			l.watched = append(l.watched, ev)
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// view is a handler that checks its calls.
type view struct {
	w        *schedule
	reg      informer.Registration
	filter   func(site) bool
	every    bool             // it gets every event
	inline   bool             // Apply calls it
	late     bool             // the informer had synced when AddHandler returned
	since    informer.Version // where the source was then
	calls    []site           // that put or, with a negative Rev, delete
	reported map[string]site
	rev      map[string]int  // the newest state that it got
	initial  map[string]site // what the cache held when it joined; nil before
	tail     bool            // something that is not initial was reported
	joined   bool
	leaves   bool // it is to remove itself in its next call
	removed  bool
}

func (v *view) passes(s site) bool { return v.filter == nil || v.filter(s) }

func (v *view) handler() informer.Handler[string, site] {
	return informer.Handler[string, site]{
		Filter: v.filter, EveryEvent: v.every && !v.inline, Inline: v.inline,
		OnAdd: func(s site, initial bool) {
			v.called()
			if known, ok := v.reported[s.Name]; ok {
				v.w.fail("add of %v, but %v is known", s, known)
			}
			if _, was := v.initial[s.Name]; initial && (!was || v.tail) {
				v.w.fail("add of %v is not initial", s)
			}
			if born := v.w.src.born[[2]any{s.Name, s.Life}]; initial && v.late && born > v.since {
				// It replaced another while no watch was open: to the informer they are the same.
				v.missed(s.Name, v.initial[s.Name].Life, s.Life)
				if v.initial[s.Name].Life == s.Life {
					v.w.fail("add of %v is initial, but it was created at %d, and AddHandler had returned at %d", s, born, v.since)
				}
			}
			v.tail = v.tail || !initial
			v.report(s)
		},
		OnUpdate: func(old, s site) {
			v.called()
			if known, ok := v.reported[s.Name]; !ok || known != old {
				v.w.fail("update from %v to %v, but %v is known", old, s, known)
			}
			v.missed(old.Name, old.Life, s.Life)
			v.tail = true
			v.report(s)
		},
		OnDelete: func(d cache.Tombstone[string, site]) {
			v.called()
			known, ok := v.reported[d.Key]
			if !ok || d.Object.Name != d.Key || d.Object.Rev < known.Rev {
				v.w.fail("delete of %v, but %v is known", d, known)
			}
			v.missed(d.Key, known.Life, d.Object.Life)
			left := v.filter != nil && d.Object == known && !d.FinalStateUnknown // it left the filter
			if ended := v.w.src.ended[[2]any{d.Key, d.Object.Life}]; ended == d.FinalStateUnknown && !left {
				v.w.fail("delete of %v, whose end the source has reported: %t", d, ended)
			}
			if !v.passes(d.Object) {
				v.w.fail("delete of %v, which is not for this handler", d)
			}
			v.tail = true
			delete(v.reported, d.Key)
			v.calls = append(v.calls, site{Name: d.Object.Name, Life: d.Object.Life, Rev: -d.Object.Rev})
		},
	}
}

// called checks that v may be called now, and removes it if this is to be its last call.
func (v *view) called() {
	if v.removed {
		v.w.fail("a handler that was removed is called")
	}
	if v.leaves {
		v.w.remove(v)
	}
}

func (v *view) report(s site) {
	if !v.passes(s) {
		v.w.fail("%v is not for this handler", s)
	}
	if s.Rev < v.rev[s.Name] {
		v.w.fail("%v comes after revision %d", s, v.rev[s.Name])
	}
	v.reported[s.Name], v.rev[s.Name] = s, s.Rev
	v.calls = append(v.calls, s)
}

// skipped returns an event that the source has reported after AddHandler had returned, and that a handler of every event was
// not called for in its turn.
func (v *view) skipped() (ev informer.Event[site], skipped bool) {
	calls := v.calls
	for _, ev := range v.w.src.watched {
		if !v.late || ev.Version <= v.since || ev.Type == informer.Bookmark {
			continue
		}
		if ev.Type == informer.Deleted {
			ev.Object.Rev *= -1
		}
		i := slices.Index(calls, ev.Object)
		if i < 0 {
			return ev, true
		}
		calls = calls[i+1:]
	}
	return ev, false
}

// missed checks that the source has not reported the end of a life that is passed over.
func (v *view) missed(name string, from, to int) {
	for life := from; life < to; life++ {
		if v.w.src.ended[[2]any{name, life}] {
			v.w.fail("the end of life %d of %s was reported by the source, and is passed over", life, name)
		}
	}
}

// schedule is an informer that is driven step by step.
type schedule struct {
	t      testing.TB
	ctx    context.Context
	src    *ledger
	in     *informer.Informer[string, site]
	driver informer.Driver[string, site]
	index  *cache.Index[int, string, site]
	views  []*view
	joined []*view // as the driver numbers them
	listed bool
	first  informer.Version // of the first list
	seen   informer.Version
	errs   []error
	broken string // the first thing that was wrong
}

func odd(s site) bool { return s.Rev%2 == 1 }

func newSchedule(t testing.TB) *schedule {
	w := &schedule{t: t, ctx: t.Context(), src: newLedger()}
	w.in = must(informer.New(w.src, nameOf, informer.Config{
		Name: "sites", Logger: quiet, Backoff: wait.Backoff{Duration: 1}, ResyncPeriod: time.Hour,
		OnError: func(err error) { w.errs = append(w.errs, err) },
	}))
	informer.SetPiece(w.in, 1)
	w.driver.In = w.in
	w.index = cache.AddIndex(w.in.Indexer(), func(s site) []int { return []int{s.Rev % 2, s.Rev % 3} })
	return w
}

func (w *schedule) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *schedule) join(filter func(site) bool) { w.add(&view{filter: filter}) }

func (w *schedule) add(v *view) {
	v.w, v.reported, v.rev = w, map[string]site{}, map[string]int{}
	v.late, v.since = w.in.HasSynced(), w.src.version()
	reg, err := w.in.AddHandler(v.handler())
	if err != nil {
		w.fail("add handler: %v", err)
	}
	v.reg = reg
	w.views = append(w.views, v)
}

func (w *schedule) reflect() {
	w.driver.Reflect(w.ctx)
	w.noteList()
}

// readOne lets the reflector read one thing, which may leave a watch open.
func (w *schedule) readOne() {
	w.driver.Steps().Read(w.ctx)
	w.noteList()
}

func (w *schedule) noteList() {
	if v, watches := w.driver.Seen(); watches && !w.listed {
		w.listed, w.first = true, v
	}
}

func (w *schedule) apply() { w.applying(w.driver.Apply) }

// applyOne applies one thing, where apply applies all that waits, as Run does.
func (w *schedule) applyOne() {
	w.applying(func() {
		idle := w.driver.Idle()
		if w.driver.ApplyOne() && idle {
			w.fail("Apply did something when there was nothing to do")
		}
	})
}

func (w *schedule) applying(apply func()) {
	n := w.driver.Handlers()
	var waiting []*view // handlers join in the order in which they were added
	for _, v := range w.views {
		if !v.joined {
			waiting = append(waiting, v)
		}
	}
	at := w.first // handlers join when the cache holds the first list, and then before the next change
	if w.in.HasSynced() {
		at = w.in.Version()
	}
	for _, v := range waiting {
		v.initial = w.src.states[at] // if it joins; an inline one is called now
	}
	apply()
	for i := n; i < w.driver.Handlers(); i++ {
		v := waiting[slices.IndexFunc(waiting, func(v *view) bool { return v.reg == w.driver.Registration(i) })]
		v.joined = true
		w.joined = append(w.joined, v)
	}
}

func (w *schedule) remove(v *view) {
	v.reg.Remove()
	v.removed = true
	for i := range w.views {
		if w.views[i] == v {
			w.views = append(w.views[:i:i], w.views[i+1:]...)
			return
		}
	}
}

// drain lets Run do all that there is to do.
func (w *schedule) drain() {
	for !w.driver.Idle() {
		w.apply()
	}
}

// listOld lets the source list itself as it was before what was seen.
func (w *schedule) listOld() {
	before, _ := w.driver.Seen()
	errs := len(w.errs)
	w.src.old = before - 1
	w.reflect()
	w.src.old = 0
	if seen, watches := w.driver.Seen(); watches || seen != before || len(w.errs) != errs+1 {
		w.fail("a list of version %d was not refused at %d", before-1, before)
	}
}

func (w *schedule) resync() {
	due := make(map[int]int) // the calls so far
	for i, v := range w.joined {
		if !v.removed {
			due[i] = len(v.calls)
		}
	}
	w.driver.Resync()
	w.drain()
	for i, calls := range due {
		n := len(w.joined[i].calls) - calls
		for range w.driver.Pending(i) {
			n++
		}
		if v := w.joined[i]; n < w.in.Indexer().Len() && !v.removed && (v.filter == nil || !v.inline) {
			w.fail("a resync gives handler %d %d objects of %d", i, n, w.in.Indexer().Len())
		}
	}
}

// check returns an error if an invariant is broken.
func (w *schedule) check() string {
	if w.broken != "" {
		return w.broken
	}
	v, seen := w.in.Version(), w.src.version()
	reflected, _ := w.driver.Seen()
	if v < w.seen || v > reflected || reflected > seen {
		return fmt.Sprintf("the version is %d after %d; the reflector has seen %d, the source is at %d", v, w.seen, reflected, seen)
	}
	w.seen = v
	if have, want := contents(w.in), w.src.states[v]; !maps.Equal(have, want) {
		return fmt.Sprintf("the cache at version %d is %v, not %v", v, have, want)
	}
	if wrong := w.checkIndex(); wrong != "" {
		return wrong
	}
	if err := informer.CheckInvariants(w.in); err != nil {
		return err.Error()
	}
	for _, err := range w.errs {
		if crash := (*wait.PanicError)(nil); errors.As(err, &crash) {
			return err.Error()
		}
	}
	for i, v := range w.joined {
		if wrong := w.checkView(i, v); wrong != "" {
			return fmt.Sprintf("handler %d: %s", i, wrong)
		}
	}
	return ""
}

func (w *schedule) checkIndex() string {
	for value := range 3 {
		n := 0
		for name, s := range w.index.All(value) {
			n++
			if have, ok := w.in.Get(name); !ok || have != s || s.Rev%2 != value && s.Rev%3 != value {
				return fmt.Sprintf("the index has %v under %d", s, value)
			}
		}
		for _, s := range w.in.Indexer().All() {
			if s.Rev%2 == value || s.Rev%3 == value {
				n--
			}
		}
		if n != 0 {
			return fmt.Sprintf("the index has %d objects too many under %d", n, value)
		}
	}
	return ""
}

// checkView compares the calls of handler i, past and pending, with the cache.
func (w *schedule) checkView(i int, v *view) string {
	if v.removed {
		if w.driver.HasPending(i) {
			return "something waits for a handler that was removed"
		}
		return ""
	}
	if v.inline && v.reg.HasSynced() && w.driver.HasPending(i) && w.driver.Idle() {
		return "something is pending for an inline handler"
	}
	if v.every {
		return w.checkEvery(i, v)
	}
	waits, initial := map[string]bool{}, false
	for name, it := range w.driver.Pending(i) {
		if waits[name] {
			return name + " waits twice"
		}
		waits[name] = true
		initial = initial || it.Initial
		known, ok := v.reported[name]
		if ok != (it.Reported != nil && v.passes(*it.Reported)) || ok && known != *it.Reported {
			return fmt.Sprintf("%v was reported, and %v waits, to report that of %v", known, name, it.Reported)
		}
		if now, is := w.in.Get(name); is != (it.Now != nil) || is && now != *it.Now {
			return fmt.Sprintf("the cache holds %v, and %v waits to be reported", now, it.Now)
		}
		if _, was := v.initial[name]; it.Initial && !was {
			return name + " is not initial"
		}
	}
	if v.reg.HasSynced() && initial {
		return "it has synced, and initial objects wait"
	}
	n := 0
	for name, s := range w.in.Indexer().All() {
		if waits[name] || !v.passes(s) {
			continue
		}
		n++
		if known, ok := v.reported[name]; !ok || known != s {
			return fmt.Sprintf("%v was reported, the cache holds %v, and nothing waits", known, s)
		}
	}
	for name := range v.reported {
		if !waits[name] {
			n--
		}
	}
	if n != 0 {
		return fmt.Sprintf("%v was reported, the cache holds %v, and nothing waits", v.reported, contents(w.in))
	}
	return ""
}

// checkEvery compares what handler i, of every event, got with the cache: the pending calls lead from one to the other.
func (w *schedule) checkEvery(i int, v *view) string {
	state, initial := maps.Clone(v.reported), false
	for name, it := range w.driver.Pending(i) {
		if known, ok := state[name]; ok != (it.Reported != nil && v.passes(*it.Reported)) || ok && known != *it.Reported {
			return fmt.Sprintf("it will have %v, and %v waits, to report that of %v", known, name, it.Reported)
		}
		initial = initial || it.Initial
		if delete(state, name); it.Now != nil && v.passes(*it.Now) {
			state[name] = *it.Now
		}
	}
	if v.reg.HasSynced() && initial {
		return "it has synced, and initial objects wait"
	}
	have := contents(w.in)
	maps.DeleteFunc(have, func(_ string, s site) bool { return !v.passes(s) })
	if !maps.Equal(state, have) {
		return fmt.Sprintf("it will have %v, and the cache holds %v", state, have)
	}
	return ""
}

// settle makes all remaining reads and calls, and returns an error if an invariant is broken.
func (w *schedule) settle() string {
	w.src.limit = -1
	for range 4 { // expired, list, watch, and one to be sure
		w.reflect()
		w.drain()
	}
	if wrong := w.check(); wrong != "" {
		return wrong
	}
	for i := range w.joined {
		for w.driver.Deliver(i) {
		}
	}
	if wrong := w.check(); wrong != "" {
		return wrong
	}
	if !w.driver.Idle() || w.in.Version() != w.src.version() || !w.in.HasSynced() {
		return fmt.Sprintf("it is at version %d, the source at %d", w.in.Version(), w.src.version())
	}
	for i, v := range w.joined {
		if !v.removed && (w.driver.HasPending(i) || !v.reg.HasSynced()) {
			return fmt.Sprintf("handler %d has not synced", i)
		}
		if ev, skipped := v.skipped(); v.every && v.filter == nil && !v.removed && skipped {
			return fmt.Sprintf("handler %d was not called for %v", i, ev)
		}
	}
	return ""
}
