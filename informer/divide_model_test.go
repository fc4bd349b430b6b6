package informer_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/wait"
)

// plot is an object of a source that is divided into slots: those of its Shard. Rev is unique, and that of the last change.
type plot struct {
	Name, Shard string
	Rev         int
}

func plotName(p plot) string  { return p.Name }
func plotShard(p plot) string { return p.Shard }

const slotCount = 4

func slotOf(shardKey string) int {
	h := fnv.New32a()
	h.Write([]byte(shardKey))
	return int(h.Sum32() % slotCount)
}

// shardsOf has two texts of each slot.
var shardsOf = func() (shards [slotCount][]string) {
	for i := 0; slices.ContainsFunc(shards[:], func(s []string) bool { return len(s) < 2 }); i++ {
		if text := fmt.Sprint("shard ", i); len(shards[slotOf(text)]) < 2 {
			shards[slotOf(text)] = append(shards[slotOf(text)], text)
		}
	}
	return shards
}()

// change is one change of a transaction. If gone, obj is the last state.
type change struct {
	obj      plot
	typ      informer.EventType
	keyOnly  bool
	seq      int // the moment of the commit
	version  informer.Version
	restored bool // by a backup, not by a transaction
}

func (c *change) gone() bool { return c.typ == informer.Deleted }

type transaction struct {
	version informer.Version
	changes []*change
}

// yielded is an event that the consumer of a watch took, and the moment before.
type yielded struct {
	seq int
	obj plot
}

// plotSource is a source with transactions and a bounded history. It keeps the whole truth, for the model.
type plotSource struct {
	chance *looptest.Chance
	slow   time.Duration // the longest time that a list takes
	fails  int           // one of so many lists fails; 0 is none

	mu sync.Mutex
	// mu guards the following.
	seq      int // counts moments
	rev      int
	now      map[string]plot
	version  informer.Version
	history  []transaction
	lost     informer.Version // a watch after a lower version expires
	log      map[string][]*change
	taken    []yielded
	changed  chan struct{} // closed and replaced when anything changes
	down     bool
	cut      int // events until a watch ends; -1 for none
	cutErr   error
	marks    int // bookmarks
	restores int
	listed   informer.Version // the highest of a list that was read to its end
	lists    int              // begun
	listing  int              // in flight
	watches  int
	latest   int // calls of LatestVersion
}

func newPlotSource(seed uint64) *plotSource {
	return &plotSource{
		chance: looptest.NewChance(seed, 17), now: make(map[string]plot), log: make(map[string][]*change),
		changed: make(chan struct{}), cut: -1, version: 1,
	}
}

func (s *plotSource) tick() int { s.seq++; return s.seq }

func (s *plotSource) wake() { close(s.changed); s.changed = make(chan struct{}) }

// commit makes one transaction: a plot without a Shard is a deletion.
func (s *plotSource) commit(keyOnly bool, plots ...plot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tx := transaction{version: s.version + 1 + informer.Version(s.chance.UpTo(2))}
	for _, p := range plots {
		c := &change{obj: p, typ: informer.Modified, seq: s.tick(), version: tx.version}
		old, ok := s.now[p.Name]
		switch {
		case p.Shard == "" && !ok:
			continue
		case p.Shard == "":
			c.obj, c.typ, c.keyOnly = old, informer.Deleted, keyOnly
			delete(s.now, p.Name)
		case !ok:
			c.typ = informer.Added
			fallthrough
		default:
			s.rev++
			c.obj.Rev = s.rev
			s.now[p.Name] = c.obj
		}
		tx.changes = append(tx.changes, c)
		s.log[p.Name] = append(s.log[p.Name], c)
	}
	if len(tx.changes) > 0 {
		s.version = tx.version
		s.history = append(s.history, tx)
		s.wake()
	}
}

// at returns the last change of an object up to a version, or nil.
func (s *plotSource) at(name string, version informer.Version) *change {
	for _, c := range slices.Backward(s.log[name]) {
		if c.version <= version {
			return c
		}
	}
	return nil
}

// restore takes the source back to an earlier transaction, as from a backup.
func (s *plotSource) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.history) < 2 {
		return
	}
	s.history = s.history[:len(s.history)-1-s.chance.UpTo(min(len(s.history)-1, 4))]
	s.version = s.history[len(s.history)-1].version
	s.lost = s.version
	for name := range s.log {
		before, isNow := s.now[name]
		c := s.at(name, s.version)
		switch {
		case c != nil && !c.gone():
			if c.obj != before {
				s.now[name] = c.obj
				s.log[name] = append(s.log[name], &change{obj: c.obj, typ: informer.Added, seq: s.tick(), version: s.version, restored: true})
			}
		case isNow:
			delete(s.now, name)
			s.log[name] = append(s.log[name], &change{obj: before, typ: informer.Deleted, seq: s.tick(), version: s.version, restored: true})
		}
	}
	s.taken, s.listed = nil, 0
	s.restores++
	s.wake()
}

// set changes s, and wakes the watches.
func (s *plotSource) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.wake()
}

func (s *plotSource) reads() (lists, watches int) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, s.watches
}

var errSleep = errors.New("the list was given up")

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.Join(errSleep, context.Cause(ctx))
	}
}

// pages lists the source as it is at one moment, before or after which time passes.
func (s *plotSource) pages(ctx context.Context) iter.Seq2[informer.List[plot], error] {
	return func(yield func(informer.List[plot], error) bool) {
		s.mu.Lock()
		s.lists++
		s.listing++
		restores := s.restores
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.listing--
			s.mu.Unlock()
		}()
		fails := s.fails > 0 && s.chance.UpTo(s.fails) == 0
		proceed := func() error {
			if err := pause(ctx, s.chance.Duration(s.slow)); err != nil {
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.down || s.restores != restores {
				return errOutage
			}
			return nil
		}
		if err := proceed(); err != nil {
			yield(informer.List[plot]{}, err)
			return
		}
		s.mu.Lock()
		all := slices.SortedFunc(maps.Values(s.now), func(a, b plot) int { return a.Rev - b.Rev })
		version := s.version
		s.mu.Unlock()
		for first := true; first || len(all) > 0; first = false {
			err := proceed()
			if err == nil && fails {
				err = errOutage
			}
			if err != nil {
				yield(informer.List[plot]{}, err)
				return
			}
			n := min(3, len(all))
			if !yield(informer.List[plot]{Items: all[:n:n], Version: version}, nil) {
				return
			}
			all = all[n:]
		}
		s.mu.Lock()
		s.listed = max(s.listed, version)
		s.mu.Unlock()
	}
}

// watch yields the changes one by one. It may be cut anywhere, also in a transaction.
func (s *plotSource) watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[plot], error] {
	return func(yield func(informer.Event[plot], error) bool) {
		s.mu.Lock()
		s.watches++
		restores, marks, done := s.restores, s.marks, 0
		s.mu.Unlock()
		// next returns one event, or the end, or what to wait for.
		next := func() (ev informer.Event[plot], seq int, changed <-chan struct{}, ends bool, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			switch {
			case ctx.Err() != nil:
				return ev, 0, nil, true, context.Cause(ctx)
			case s.down:
				return ev, 0, nil, true, errOutage
			case s.restores != restores:
				return ev, 0, nil, true, informer.ErrNewHistory
			case s.cut == 0:
				s.cut = -1
				return ev, 0, nil, true, s.cutErr
			case after < s.lost:
				return ev, 0, nil, true, informer.ErrExpired
			}
			i, _ := slices.BinarySearchFunc(s.history, after+1, func(tx transaction, v informer.Version) int {
				return int(tx.version) - int(v)
			})
			switch {
			case i < len(s.history):
				tx := s.history[i]
				c := tx.changes[done]
				done++
				if done == len(tx.changes) { // only the last event of a transaction has its version
					after, done = tx.version, 0
				}
				s.cut = max(-1, s.cut-1)
				ev = informer.Event[plot]{Type: c.typ, Object: c.obj, Version: after}
				if c.keyOnly {
					ev.KeyOnly, ev.Object = true, plot{Name: c.obj.Name}
				}
				return ev, s.tick(), nil, false, nil
			case marks != s.marks:
				marks = s.marks
				after = max(after, s.version)
				return informer.Event[plot]{Type: informer.Bookmark, Version: after}, s.tick(), nil, false, nil
			}
			return ev, 0, s.changed, false, nil
		}
		for {
			ev, seq, changed, ends, err := next()
			switch {
			case err != nil:
				yield(ev, err)
				return
			case ends:
				return
			case changed != nil:
				select {
				case <-changed:
				case <-ctx.Done():
				}
				continue
			}
			if !yield(ev, nil) {
				return
			}
			if ev.Type == informer.Added || ev.Type == informer.Modified {
				s.mu.Lock()
				if s.restores == restores && ev.Version >= s.listed { // or else a list may have had a later state
					s.taken = append(s.taken, yielded{seq, ev.Object})
				}
				s.mu.Unlock()
			}
		}
	}
}

// The kinds of the source: with and without pages, with and without a version that can be asked for.
type (
	plainPlots     struct{ *plotSource }
	pagedPlots     struct{ *plotSource }
	versionedPlots struct{ plainPlots }
	bothPlots      struct{ pagedPlots }
)

func (s plainPlots) List(ctx context.Context) (informer.List[plot], error) {
	return informer.Collect(s.pages(ctx))
}

func (s plainPlots) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[plot], error] {
	return s.watch(ctx, after)
}

func (s pagedPlots) List(ctx context.Context) (informer.List[plot], error) {
	return informer.Collect(s.pages(ctx))
}

func (s pagedPlots) ListPages(ctx context.Context) iter.Seq2[informer.List[plot], error] {
	return s.pages(ctx)
}

func (s pagedPlots) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[plot], error] {
	return s.watch(ctx, after)
}

func (s versionedPlots) LatestVersion(context.Context) (informer.Version, error) {
	return s.latestVersion()
}
func (s bothPlots) LatestVersion(context.Context) (informer.Version, error) { return s.latestVersion() }

func (s *plotSource) latestVersion() (informer.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest++
	if s.down {
		return 0, errOutage
	}
	return s.version, nil
}

func (s *plotSource) kind(n int) informer.ListWatcher[plot] {
	plain, paged := plainPlots{s}, pagedPlots{s}
	return []informer.ListWatcher[plot]{plain, paged, versionedPlots{plain}, bothPlots{paged}}[n]
}

// holding is one call of Hold.
type holding struct {
	slot       int
	begin, end int // moments; end is 0 while the call is in progress
	err        error
	ctx        context.Context
	entered    bool // it was in progress when every goroutine was blocked
	dropped    bool // its slot was dropped meanwhile
	mustFail   bool // the same, and certainly after the call had begun
	over       int  // the first rest after its slot was dropped, or after it failed; 0 while the slot may have its objects
	restores   int
	snapshot   map[string]*change // the objects of the slot at the call
}

// divided is an informer of some slots, its source, its handlers, and what is known of the slots.
type divided struct {
	t   *testing.T
	src *plotSource
	in  *informer.Informer[string, plot]

	// The lock of the source guards the following.
	holds     []*holding
	since     [slotCount]int // since when the slot is held, certainly; 0 if it is not
	unsure    [slotCount]bool
	dropped   [slotCount]bool // the slot was dropped, and its objects may still be there
	dropEnd   [slotCount]int  // the first rest after the last Drop at which a watch was open: its objects are gone by then
	resets    int
	restoring bool // the source went back, and the informer may not have noticed
	views     []*plotView
}

func newDivided(t *testing.T, seed uint64) *divided {
	src := newPlotSource(seed)
	src.slow = []time.Duration{0, 100 * time.Millisecond, 3 * time.Second}[src.chance.UpTo(3)]
	src.fails = []int{0, 0, 3}[src.chance.UpTo(3)]
	d := &divided{t: t, src: src}
	d.in = must(informer.New(informer.Divide(src.kind(src.chance.UpTo(4)), plotShard), plotName, informer.Config{
		ResyncPeriod: 3 * time.Minute,
		OnError: func(err error) {
			if crash := (*wait.PanicError)(nil); errors.As(err, &crash) {
				t.Error(err)
			}
		},
		Backoff: wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 30 * time.Second, Rand: src.chance.Float},
	}))
	d.in.Share(slotOf, nil)
	return d
}

// kept reports whether the slot of p has been held since the moment, certainly.
func (d *divided) kept(p plot, moment int) bool {
	since := d.since[slotOf(p.Shard)]
	return since != 0 && since <= moment
}

// between reports whether an object was in a slot for a time that ended before the last list: another slot has it there. If the slot joined by that
// list, it never had the object, and the other one does not have it until the watch has come that far.
func (d *divided) between(c *change) bool {
	last := d.src.at(c.obj.Name, d.src.listed)
	return c.version < d.src.listed && d.in.Version() < d.src.listed && (last.gone() || slotOf(last.obj.Shard) != slotOf(c.obj.Shard))
}

// has reports that the cache has what it must have of an object whose slot was held at base and is held: its state, or a later one.
func (d *divided) has(base *change, got plot, ok bool) error {
	log := d.src.log[base.obj.Name]
	for _, c := range log[slices.Index(log, base):] {
		switch {
		case ok && !c.gone() && c.obj == got:
			return nil
		case !ok && (c.gone() || !d.kept(c.obj, c.seq) && c != base || d.between(c)):
			return nil
		}
	}
	return fmt.Errorf("the cache has %v (%t), but %v was committed at %d", got, ok, base.obj, base.seq)
}

// hold calls Hold in a goroutine, which ends with the call.
func (d *divided) hold(ctx context.Context, slot int, done func()) {
	s := d.src
	s.mu.Lock()
	h := &holding{slot: slot, begin: s.tick(), ctx: ctx, restores: s.restores, snapshot: d.snapshot(func(p plot) bool {
		return slotOf(p.Shard) == slot
	})}
	d.holds = append(d.holds, h)
	s.mu.Unlock()
	go func() {
		defer done()
		err := d.in.Hold(ctx, slot)
		got := make(map[string]plot)
		for name := range h.snapshot {
			if p, ok := d.in.Get(name); ok {
				got[name] = p
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		h.end, h.err = s.tick(), err
		switch {
		case errors.Is(err, informer.ErrEnded): // the test has failed
			return
		case err != nil && ctx.Err() == nil && !h.dropped:
			d.t.Errorf("Hold of slot %d has failed: %v", slot, err)
		case err == nil && h.mustFail:
			d.t.Errorf("Hold of slot %d returned nil, but the slot was dropped", slot)
		case err != nil:
			return
		case h.dropped:
			d.unsure[slot] = true // which came first?
		default:
			if d.since[slot] == 0 {
				d.since[slot] = h.end
			}
			for name, base := range h.snapshot {
				p, ok := got[name]
				if err := d.has(base, p, ok); err != nil && h.restores == s.restores && !d.between(base) {
					d.t.Errorf("Hold of slot %d, called at %d, returned at %d: %v", slot, h.begin, h.end, err)
				}
			}
		}
	}()
}

// snapshot returns the last changes of the objects that pass.
func (d *divided) snapshot(pass func(plot) bool) map[string]*change {
	all := make(map[string]*change)
	for name, p := range d.src.now {
		if log := d.src.log[name]; pass(p) {
			all[name] = log[len(log)-1]
		}
	}
	return all
}

func (d *divided) drop(slot int) {
	s := d.src
	s.mu.Lock()
	s.tick()
	d.dropped[slot] = true
	d.since[slot] = 0
	for _, h := range d.holds {
		if h.slot == slot {
			h.dropped = true
			h.mustFail = h.mustFail || h.end == 0 && h.entered
		}
	}
	s.mu.Unlock()
	d.in.Drop(slot)
}

// catchUp calls CatchUp in a goroutine, which ends with the call.
func (d *divided) catchUp(ctx context.Context, done func()) {
	s := d.src
	s.mu.Lock()
	begin, version, restores, resets := s.tick(), s.version, s.restores, d.resets
	snapshot := d.snapshot(func(p plot) bool { return d.kept(p, begin) })
	s.mu.Unlock()
	go func() {
		defer done()
		if err := d.in.CatchUp(ctx); err != nil {
			if ctx.Err() == nil && !errors.Is(err, informer.ErrEnded) {
				d.t.Error("CatchUp has failed:", err)
			}
			return
		}
		reached := d.in.Version()
		got := make(map[string]plot)
		for name := range snapshot {
			if p, ok := d.in.Get(name); ok {
				got[name] = p
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.restores != restores || d.resets != resets {
			return
		}
		if reached < version {
			d.t.Errorf("CatchUp returned at version %d, but was called at %d", reached, version)
		}
		for name, base := range snapshot {
			p, ok := got[name]
			if err := d.has(base, p, ok); err != nil && d.kept(base.obj, begin) {
				d.t.Errorf("CatchUp, called at %d: %v", begin, err)
			}
		}
	}()
}

func (d *divided) reset(restore bool) {
	if restore {
		d.src.set(func() { d.restoring = true })
		d.src.restore()
	}
	d.src.set(func() { d.resets++ })
	d.in.Reset()
}

// rest waits until every goroutine is blocked, and checks what must be true then, whatever is in progress.
func (d *divided) rest() {
	s := d.src
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	moment := s.tick()
	held := d.in.Held()
	for slot := range slotCount {
		isHeld := slices.Contains(held, slot)
		if d.unsure[slot] {
			d.unsure[slot] = false
			if d.since[slot] == 0 && isHeld {
				d.since[slot] = moment
				for _, h := range d.holds { // Drop came first
					if h.slot == slot && h.end != 0 && h.err == nil && h.over == 0 {
						h.dropped = false
					}
				}
			}
		}
	}
	// A list in flight, or a backoff before one, delays what Drop, or a Hold that has failed, does to the cache and to other calls of Hold.
	calm := s.listing == 0 && d.in.Stats().Watching
	var mayHave [slotCount]bool
	for _, h := range d.holds {
		switch {
		case h.end == 0 && h.dropped && h.entered && calm:
			d.t.Errorf("Hold of slot %d, called at %d, has not returned, but the slot was dropped", h.slot, h.begin)
		case h.end == 0:
			h.entered = true
			mayHave[h.slot] = true
		case (h.dropped || h.err != nil) && h.over == 0 && calm:
			h.over = moment
		case (h.dropped || h.err != nil) && h.over == 0:
			mayHave[h.slot] = true
		}
	}
	for slot := range slotCount {
		if d.dropped[slot] && calm {
			d.dropped[slot], d.dropEnd[slot] = false, moment
		}
	}
	for slot := range slotCount {
		isHeld := slices.Contains(held, slot)
		assert.Equal(d.t, d.since[slot] != 0, isHeld, "slot %d is held", slot)
		for name, p := range d.in.InSlot(slot) {
			got, ok := d.in.Get(name)
			if !ok || got != p || slotOf(p.Shard) != slot {
				d.t.Errorf("InSlot(%d) has %v, but the cache has %v (%t)", slot, p, got, ok)
			}
		}
	}
	objects := maps.Collect(d.in.All())
	count := 0
	for slot := range slotCount {
		for range d.in.InSlot(slot) {
			count++
		}
	}
	assert.Equal(d.t, len(objects), count, "objects in slots")
	for _, p := range objects {
		slot, ok := d.in.Slot(p)
		if !ok || slot != slotOf(p.Shard) || d.since[slot] == 0 && !mayHave[slot] {
			d.t.Errorf("the cache has %v of slot %d (%t), which is not held", p, slot, ok)
		}
	}
	if err := informer.CheckInvariants(d.in); err != nil {
		d.t.Error(err)
	}
	if !d.restoring {
		version := d.in.Version()
		for name := range s.log {
			base := s.at(name, version)
			got, ok := objects[name]
			switch {
			case base == nil || base.gone() || d.since[slotOf(base.obj.Shard)] == 0:
				// That of a slot whose Hold is in progress may be there.
				if ok && !slices.ContainsFunc(s.log[name], func(c *change) bool { return c.obj == got && c.seq >= seqOf(base) && !c.gone() }) {
					d.t.Errorf("at version %d the cache has %v", version, got)
				}
			default:
				if err := d.has(base, got, ok); err != nil {
					d.t.Errorf("at version %d: %v", version, err)
				}
			}
		}
	}
	for _, v := range d.views {
		v.note(objects, moment)
	}
}

func seqOf(c *change) int {
	if c == nil {
		return 0
	}
	return c.seq
}

// plotView is a handler that holds each call against the truth.
type plotView struct {
	*divided
	name    string
	kind    informer.Handler[string, plot] // its options
	slow    time.Duration
	reg     informer.Registration
	removed bool

	// The lock of the source guards the following.
	joined   int // a moment at which the handler had joined; 0 before
	known    map[string]plot
	last     map[string]plot // the last reported states, also of objects that are gone
	seen     map[int]bool    // revisions
	verified map[string]int  // when the cache had the known state, and nothing was pending
	deleted  map[string]bool // left the cache by a deletion
	left     map[string]int  // left the cache because of a Drop, by that moment
	resynced int
}

func (v *plotView) quick() bool { return v.slow == 0 }

func (v *plotView) passes(p plot) bool { return v.kind.Filter == nil || v.kind.Filter(p) }

func (v *plotView) complain(format string, args ...any) {
	v.t.Errorf("%s: %s", v.name, fmt.Sprintf(format, args...))
}

// called locks, forgets what was expected of the next call, and returns the known state. It also returns the way out.
func (v *plotView) called(name string) (known plot, ok bool, done func()) {
	v.src.mu.Lock()
	if v.removed {
		v.complain("called for %s after Remove", name)
	}
	known, ok = v.known[name]
	return known, ok, func() {
		delete(v.verified, name)
		delete(v.deleted, name)
		delete(v.left, name)
		v.src.mu.Unlock()
		if v.slow > 0 {
			time.Sleep(v.slow)
		}
	}
}

// changesFrom returns the changes of an object from the first with a state, or nil.
func (v *plotView) changesFrom(p plot) []*change {
	log := v.src.log[p.Name]
	i := slices.IndexFunc(log, func(c *change) bool { return !c.gone() && c.obj == p })
	if i < 0 {
		v.complain("%v was never committed", p)
		return nil
	}
	return log[i:]
}

// shown checks a state that the handler is called with.
func (v *plotView) shown(p plot) {
	log := v.changesFrom(p)
	restored := slices.ContainsFunc(log, func(c *change) bool { return c.restored && c.obj == p && !c.gone() })
	if last, ok := v.last[p.Name]; ok && p.Rev < last.Rev && !restored {
		v.complain("%v after %v", p, last)
	}
	if got, ok := v.in.Get(p.Name); ok && got.Rev < p.Rev && v.src.restores == 0 {
		v.complain("%v, but the cache has %v", p, got)
	}
	if !v.passes(p) {
		v.complain("%v does not pass the filter", p)
	}
	v.known[p.Name], v.last[p.Name], v.seen[p.Rev] = p, p, true
}

func (v *plotView) onAdd(p plot, initial bool) {
	known, ok, done := v.called(p.Name)
	defer done()
	if ok {
		v.complain("OnAdd of %v, but %v is known", p, known)
	}
	v.shown(p)
	if v.src.restores > 0 {
		return
	}
	log := v.changesFrom(p)
	if len(log) == 0 {
		return
	}
	slot := slotOf(p.Shard)
	if !initial && v.kind.Filter == nil && v.quick() && !slices.ContainsFunc(v.holds, func(h *holding) bool {
		return h.slot == slot && h.begin < log[0].seq && h.over == 0
	}) {
		v.complain("OnAdd of %v, which is not initial, but has come with its slot", p)
	}
	created := v.createdAt(p)
	if initial && v.quick() && v.joined != 0 && v.joined < created && !slices.ContainsFunc(v.holds, func(h *holding) bool {
		// It may have come with the slot of an earlier state. A list in flight may outlive a Hold that has failed.
		return v.hadSlot(p.Name, h.slot) && (h.end == 0 || h.end > created || h.err != nil)
	}) {
		v.complain("OnAdd of %v, which is initial, but was created when its slot was held", p)
	}
}

// createdAt returns when the object of a state was created.
func (v *plotView) createdAt(p plot) (moment int) {
	for _, c := range v.src.log[p.Name] {
		if c.typ == informer.Added {
			moment = c.seq
		}
		if !c.gone() && c.obj == p {
			return moment
		}
	}
	return moment
}

// hadSlot reports whether an object was ever in a slot.
func (v *plotView) hadSlot(name string, slot int) bool {
	return slices.ContainsFunc(v.src.log[name], func(c *change) bool { return slotOf(c.obj.Shard) == slot })
}

func (v *plotView) onUpdate(old, p plot) {
	known, ok, done := v.called(p.Name)
	defer done()
	if !ok || known != old {
		v.complain("OnUpdate from %v to %v, but %v is known (%t)", old, p, known, ok)
	}
	v.shown(p)
}

func (v *plotView) onResync(p plot) {
	known, ok, done := v.called(p.Name)
	defer done()
	if !ok || known != p {
		v.complain("OnResync of %v, but %v is known (%t)", p, known, ok)
	}
	v.resynced++
	v.shown(p)
}

func (v *plotView) onDelete(tomb cache.Tombstone[string, plot]) {
	p := tomb.Object
	known, ok, done := v.called(tomb.Key)
	defer done()
	if !ok || p.Name != tomb.Key {
		v.complain("OnDelete of %v, but %v is known (%t)", tomb, known, ok)
		return
	}
	if p.Rev < known.Rev && v.src.restores == 0 || tomb.Previous != known {
		v.complain("OnDelete of %v, but %v is known", tomb, known)
	}
	v.changesFrom(p)
	if !v.passes(p) {
		v.complain("OnDelete of %v, which does not pass the filter", tomb)
	}
	if log := v.changesFrom(known); len(log) > 0 && !slices.ContainsFunc(log[1:], func(c *change) bool {
		return c.gone() || c.restored || !v.kept(c.obj, c.seq) || !v.passes(c.obj) || v.between(c)
	}) {
		v.complain("OnDelete of %v, which exists in a slot that is held; %v is known", tomb, known)
	}
	moved := slices.ContainsFunc(v.changesFrom(known)[1:], func(c *change) bool { return !c.gone() }) // perhaps to a slot that is held
	if left := v.left[tomb.Key]; left != 0 && !moved && !slices.ContainsFunc(v.holds, func(h *holding) bool { return h.begin > left }) {
		v.complain("OnDelete of %v, which left because its slot was dropped", tomb)
	}
	delete(v.known, tomb.Key)
}

func (v *plotView) onDrop(p plot) {
	known, ok, done := v.called(p.Name)
	defer done()
	if !ok || known != p {
		v.complain("OnDrop of %v, but %v is known (%t)", p, known, ok)
		return
	}
	if v.deleted[p.Name] {
		v.complain("OnDrop of %v, which was deleted before", p)
	}
	if !v.mayBeDropped(p) {
		v.complain("OnDrop of %v, but no slot of it was dropped", p)
	}
	delete(v.known, p.Name)
}

// mayBeDropped reports whether a slot that the object had since p was dropped, or was not held.
func (v *plotView) mayBeDropped(p plot) bool {
	log := v.changesFrom(p)
	if len(log) == 0 {
		return false
	}
	after := max(log[0].seq, v.verified[p.Name])
	for _, c := range log {
		slot := slotOf(c.obj.Shard)
		if v.dropped[slot] || v.dropEnd[slot] > after {
			return true
		}
		if !v.kept(c.obj, after) && slices.ContainsFunc(v.holds, func(h *holding) bool {
			return h.slot == slot && (h.end == 0 && h.ctx.Err() != nil || h.err != nil && (h.over == 0 || h.over > after))
		}) {
			return true
		}
	}
	return false
}

// note records, at a rest, what the next calls must be.
func (v *plotView) note(objects map[string]plot, moment int) {
	if v.joined == 0 && v.in.HasSynced() {
		v.joined = moment
	}
	inProgress := slices.ContainsFunc(v.holds, func(h *holding) bool { return h.end == 0 })
	for name, p := range v.known {
		log := v.changesFrom(p)
		if len(log) == 0 {
			continue
		}
		got, ok := objects[name]
		switch {
		case ok && got == p && v.quick():
			v.verified[name] = moment
		case ok || v.restoring || v.src.restores > 0:
		case !slices.ContainsFunc(log, func(c *change) bool { return !c.gone() && !v.kept(c.obj, log[0].seq) }):
			v.deleted[name] = true
		case len(log) == 1 && !inProgress && v.left[name] == 0:
			v.left[name] = moment
		}
	}
}

// join adds a handler of some kind.
func (d *divided) join() {
	s := d.src
	v := &plotView{
		divided: d, name: fmt.Sprintf("handler %d", len(d.views)+1), known: make(map[string]plot), last: make(map[string]plot),
		seen: make(map[int]bool), verified: make(map[string]int), deleted: make(map[string]bool), left: make(map[string]int),
	}
	switch s.chance.UpTo(4) {
	case 0:
		v.kind.Inline = true
		v.name += ", Inline"
	case 1:
		v.kind.EveryEvent = true
		v.name += ", EveryEvent"
	}
	if !v.kind.Inline && s.chance.UpTo(2) == 0 {
		v.slow = []time.Duration{50 * time.Millisecond, 700 * time.Millisecond}[s.chance.UpTo(2)]
		v.name += ", slow"
	}
	if s.chance.UpTo(3) == 0 {
		v.kind.Filter = func(p plot) bool { return p.Rev%3 != 0 }
		v.name += ", Filter"
	}
	h := v.kind
	h.OnAdd, h.OnUpdate, h.OnDelete, h.OnDrop = v.onAdd, v.onUpdate, v.onDelete, v.onDrop
	if s.chance.UpTo(2) == 0 {
		h.OnResync = v.onResync
	}
	s.set(func() { d.views = append(d.views, v) })
	v.reg = must(d.in.AddHandler(h))
	s.set(func() {
		if d.in.HasSynced() {
			v.joined = s.tick()
		}
	})
}

func (d *divided) leave() {
	if len(d.views) == 0 {
		return
	}
	var v *plotView
	d.src.set(func() {
		i := d.src.chance.UpTo(len(d.views))
		v = d.views[i]
		d.views = slices.Delete(d.views, i, i+1)
	})
	<-v.reg.Remove()
	d.src.set(func() { v.removed = true })
}

// write commits one transaction of up to three objects.
func (d *divided) write() {
	s := d.src
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	var plots []plot
	for range 1 + s.chance.UpTo(3) {
		i := s.chance.UpTo(len(names))
		p := plot{Name: names[i]}
		names = slices.Delete(names, i, i+1)
		s.mu.Lock()
		old, ok := s.now[p.Name]
		s.mu.Unlock()
		switch n := s.chance.UpTo(8); {
		case n < 2: // a deletion
		case n < 5 && ok:
			p.Shard = old.Shard
		default:
			shards := shardsOf[s.chance.UpTo(slotCount)]
			p.Shard = shards[s.chance.UpTo(len(shards))]
		}
		plots = append(plots, p)
	}
	s.commit(s.chance.UpTo(3) == 0, plots...)
}

// limited returns a context that may end early, and what ends it.
func (d *divided) limited() (context.Context, context.CancelFunc) {
	switch d.src.chance.UpTo(5) {
	case 0:
		return context.WithTimeout(d.t.Context(), d.src.chance.Duration(3*time.Second))
	case 1:
		return context.WithTimeout(d.t.Context(), d.src.chance.Duration(100*time.Millisecond))
	default:
		return context.WithCancel(d.t.Context())
	}
}

func (d *divided) act(restores bool) {
	s := d.src
	slot := s.chance.UpTo(slotCount)
	switch s.chance.UpTo(40) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
		d.write()
	case 11, 12, 13, 14, 15, 16:
		ctx, cancel := d.limited()
		d.hold(ctx, slot, cancel)
	case 17: // a Hold whose context ends at once
		ctx, cancel := context.WithCancel(d.t.Context())
		d.hold(ctx, slot, cancel)
		cancel()
	case 18, 19, 20, 21:
		d.drop(slot)
	case 22: // dropped and held again
		d.drop(slot)
		ctx, cancel := d.limited()
		d.hold(ctx, slot, cancel)
	case 23: // several at once
		for slot := range slotCount {
			ctx, cancel := d.limited()
			d.hold(ctx, slot, cancel)
		}
	case 24, 25:
		ctx, cancel := d.limited()
		d.catchUp(ctx, cancel)
	case 26:
		down := s.chance.UpTo(2) == 0
		s.set(func() { s.down = down })
	case 27:
		s.set(func() { s.lost = s.version })
	case 28, 29:
		cut, err := s.chance.UpTo(4), []error{nil, errOutage, informer.ErrExpired}[s.chance.UpTo(3)]
		s.set(func() { s.cut, s.cutErr = cut, err })
	case 30:
		s.set(func() { s.marks++ })
	case 31:
		if s.chance.UpTo(2) == 0 {
			d.reset(restores)
		}
	case 32:
		d.join()
	case 33:
		if s.chance.UpTo(2) == 0 {
			d.leave()
		}
	case 34, 35:
		time.Sleep(s.chance.Duration(20 * time.Second))
	default:
		time.Sleep(s.chance.Duration(time.Second))
	}
}

// settle lets everything come to rest and compares it with the truth.
func (d *divided) settle() {
	s := d.src
	s.set(func() { s.down, s.fails = false, 0 })
	time.Sleep(10 * time.Minute)
	s.set(func() { d.restoring = false })
	d.rest()
	s.mu.Lock()
	truth := make(map[string]plot)
	for name, p := range s.now {
		if d.since[slotOf(p.Shard)] != 0 {
			truth[name] = p
		}
	}
	version := s.version
	for _, h := range d.holds {
		if h.end == 0 {
			d.t.Errorf("Hold of slot %d does not return", h.slot)
		}
	}
	for _, v := range d.views {
		for _, y := range s.taken {
			if (v.kind.EveryEvent || v.kind.Inline) && v.joined != 0 && v.joined < y.seq && v.passes(y.obj) &&
				d.kept(y.obj, y.seq) && !v.seen[y.obj.Rev] {
				v.complain("%v was reported by the source at %d, but not to the handler", y.obj, y.seq)
			}
		}
		want := maps.Clone(truth)
		maps.DeleteFunc(want, func(_ string, p plot) bool { return !v.passes(p) })
		assert.Equal(d.t, want, v.known, "the view of %s", v.name)
		assert.True(d.t, v.reg.HasSynced(), v.name)
	}
	s.taken = nil
	s.mu.Unlock()
	assert.Equal(d.t, truth, maps.Collect(d.in.All()))
	assert.Equal(d.t, version, d.in.Version())
	assert.True(d.t, d.in.HasSynced())

	late := make(map[string]plot)
	reg := must(d.in.AddHandler(informer.Handler[string, plot]{OnAdd: func(p plot, initial bool) {
		late[p.Name] = p
		assert.True(d.t, initial)
	}}))
	synctest.Wait()
	assert.Equal(d.t, truth, late)
	<-reg.Remove()
}

// playDivided plays the schedule of a seed.
func playDivided(t *testing.T, seed uint64) {
	d := newDivided(t, seed)
	restores := seed%4 == 0
	s := d.src
	for range s.chance.UpTo(6) {
		d.write()
	}
	for range 1 + s.chance.UpTo(3) {
		d.join()
	}
	defer looptest.StartInBubble(t, d.in.Run)()
	for range 3 {
		fails := s.fails
		for range 20 {
			d.act(restores)
			if s.chance.UpTo(3) > 0 {
				d.rest()
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		d.settle()
		s.set(func() { s.fails = fails })
	}
}

// TestDividedInformerHoldsTruthOfItsSlots plays random schedules of writes, Hold, Drop, and outages. DIVIDE_SCHEDULES=full plays
// more, and DIVIDE_SEED one of them.
func TestDividedInformerHoldsTruthOfItsSlots(t *testing.T) {
	if text := os.Getenv("DIVIDE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		looptest.Bubble(t, text, func(t *testing.T) { playDivided(t, seed) })
		return
	}
	looptest.Lanes(t, looptest.Effort("DIVIDE_SCHEDULES", 300, 20_000), func(t *testing.T, i int) { playDivided(t, uint64(i)) })
}
