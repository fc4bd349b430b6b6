package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// What is checked after every step of a schedule:
//
//  1. The cache is exactly what the source was at Version: the changes up to it and none after, object by object.
//  2. Version never falls, and is never beyond what the source has said.
//  3. The calls of a handler for a key are an add, updates, a delete, and so on again; the old state of an update is what
//     it was told last, and no state is older than the one before.
//  4. The calls that a handler got, with its pending ones, lead to the state of the cache: no change is lost, and none is told
//     twice. A handler that joins late starts from exactly what the cache held then: nothing that was created after
//     AddHandler had returned is initial. One of every event is told of each event that a watch has told since.
//  5. A deletion that the source has told is told as it was, and never hidden in an update. One that nobody watched is
//     told as unknown, and as an update only when the key has come back in the same gap. No object is told that does not
//     pass the filter of the handler.
//  6. A handler has synced when it has returned for every object that was there when it joined and is still waiting, and
//     not before. inInitialList is said of those objects only, and before anything else.
//  7. A list that is older than what was seen changes nothing, is reported, and is asked for again.
//  8. A resync changes neither the cache nor the version, and gives each handler each object once.
//  9. A handler has at most one pending item for each key that it knows or that exists.
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
	told    map[[2]any]bool  // the lives, by name and number, whose end a watch has told
	born    map[[2]any]informer.Version
	watched []informer.Event[site] // what watches have told
}

func newLedger() *ledger {
	return &ledger{states: []map[string]site{{}}, lives: map[string]int{}, limit: -1, told: map[[2]any]bool{}, born: map[[2]any]informer.Version{}}
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
				l.told[[2]any{ev.Object.Name, ev.Object.Life}] = true
			}
			l.watched = append(l.watched, ev)
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// view is a handler that checks what it is told.
type view struct {
	w       *schedule
	reg     *informer.Registration
	filter  func(site) bool
	every   bool             // it gets every event
	late    bool             // the informer had synced when AddHandler returned
	since   informer.Version // where the source was then
	calls   []site           // that put or, with a negative Rev, delete
	known   map[string]site
	rev     map[string]int  // the newest state that it was told
	initial map[string]site // what the cache held when it joined; nil before
	tail    bool            // something that is not initial was told
	joined  bool
	leaves  bool // it is to remove itself in its next call
	removed bool
}

func (v *view) passes(s site) bool { return v.filter == nil || v.filter(s) }

func (v *view) handler() informer.Handler[string, site] {
	return informer.Handler[string, site]{
		Filter: v.filter, EveryEvent: v.every,
		OnAdd: func(s site, initial bool) {
			v.called()
			if known, ok := v.known[s.Name]; ok {
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
			v.tell(s)
		},
		OnUpdate: func(old, s site) {
			v.called()
			if known, ok := v.known[s.Name]; !ok || known != old {
				v.w.fail("update from %v to %v, but %v is known", old, s, known)
			}
			v.missed(old.Name, old.Life, s.Life)
			v.tail = true
			v.tell(s)
		},
		OnDelete: func(d cache.Tombstone[string, site]) {
			v.called()
			known, ok := v.known[d.Key]
			if !ok || d.Object.Name != d.Key || d.Object.Rev < known.Rev {
				v.w.fail("delete of %v, but %v is known", d, known)
			}
			v.missed(d.Key, known.Life, d.Object.Life)
			left := v.filter != nil && d.Object == known && !d.FinalStateUnknown // it left the filter
			if told := v.w.src.told[[2]any{d.Key, d.Object.Life}]; told == d.FinalStateUnknown && !left {
				v.w.fail("delete of %v, whose end the source has told: %t", d, told)
			}
			if !v.passes(d.Object) {
				v.w.fail("delete of %v, which is not for this handler", d)
			}
			v.tail = true
			delete(v.known, d.Key)
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

func (v *view) tell(s site) {
	if !v.passes(s) {
		v.w.fail("%v is not for this handler", s)
	}
	if s.Rev < v.rev[s.Name] {
		v.w.fail("%v comes after revision %d", s, v.rev[s.Name])
	}
	v.known[s.Name], v.rev[s.Name] = s, s.Rev
	v.calls = append(v.calls, s)
}

// skipped returns an event that the source has told after AddHandler had returned, and that a handler of every event was
// not told of in its turn.
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

// missed checks that the source has not told of the end of a life that is passed over.
func (v *view) missed(name string, from, to int) {
	for life := from; life < to; life++ {
		if v.w.src.told[[2]any{name, life}] {
			v.w.fail("the end of life %d of %s was told by the source, and is passed over", life, name)
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

var quiet = slog.New(slog.DiscardHandler)

func (w *schedule) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *schedule) join(filter func(site) bool) { w.add(&view{filter: filter}) }

func (w *schedule) add(v *view) {
	v.w, v.known, v.rev = w, map[string]site{}, map[string]int{}
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
	apply()
	for i := range w.driver.Handlers() - n {
		v := waiting[i]
		v.joined, v.initial = true, w.src.states[at]
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
	var due []int
	for i, v := range w.joined {
		if !v.removed {
			due = append(due, i)
		}
	}
	w.driver.Resync()
	w.drain()
	for _, i := range due {
		n := 0
		for range w.driver.Backlog(i) {
			n++
		}
		if n < w.in.Indexer().Len() {
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
		if w.driver.Waits(i) {
			return "something waits for a handler that was removed"
		}
		return ""
	}
	if v.every {
		return w.checkEvery(i, v)
	}
	waits, initial := map[string]bool{}, false
	for name, it := range w.driver.Backlog(i) {
		if waits[name] {
			return name + " waits twice"
		}
		waits[name] = true
		initial = initial || it.Initial
		known, ok := v.known[name]
		if ok != (it.Known.Present && v.passes(it.Known.Object)) || ok && known != it.Known.Object {
			return fmt.Sprintf("it knows %v, and %v waits to be told that of %v", known, name, it.Known)
		}
		if now, is := w.in.Get(name); is != it.Now.Present || is && now != it.Now.Object {
			return fmt.Sprintf("the cache holds %v, and %v waits to be told", now, it.Now)
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
		if known, ok := v.known[name]; !ok || known != s {
			return fmt.Sprintf("it knows %v, the cache holds %v, and nothing waits", known, s)
		}
	}
	for name := range v.known {
		if !waits[name] {
			n--
		}
	}
	if n != 0 {
		return fmt.Sprintf("it knows %v, the cache holds %v, and nothing waits", v.known, contents(w.in))
	}
	return ""
}

// checkEvery compares what handler i, of every event, got with the cache: the pending calls lead from one to the other.
func (w *schedule) checkEvery(i int, v *view) string {
	state, initial := maps.Clone(v.known), false
	for name, it := range w.driver.Backlog(i) {
		if known, ok := state[name]; ok != it.Known.Present || ok && known != it.Known.Object {
			return fmt.Sprintf("it will know %v, and %v waits to be told that of %v", known, name, it.Known)
		}
		initial = initial || it.Initial
		if state[name] = it.Now.Object; !it.Now.Present {
			delete(state, name)
		}
	}
	if v.reg.HasSynced() && initial {
		return "it has synced, and initial objects wait"
	}
	if have := contents(w.in); !maps.Equal(state, have) {
		return fmt.Sprintf("it will know %v, and the cache holds %v", state, have)
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
		if !v.removed && (w.driver.Waits(i) || !v.reg.HasSynced()) {
			return fmt.Sprintf("handler %d has not synced", i)
		}
		if ev, skipped := v.skipped(); v.every && !v.removed && skipped {
			return fmt.Sprintf("handler %d was not told of %v", i, ev)
		}
	}
	return ""
}
