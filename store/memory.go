package store

import (
	"context"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Memory is a database in memory, of objects of many kinds: a [backend.Backend] that [Open] gives access to.
//
// There is one version counter over all kinds: each write that changes something raises it by one, so that the versions
// of two objects of two kinds tell which was written first.
//
// Values of plain data are kept as they are, and copied by reflection where they come in and go out. Plain data are
// booleans, numbers, strings, [time.Time], and arrays, slices, maps, pointers and structs of plain data, where a struct
// has exported fields only and the keys of a map hold no pointer, float or time. A type may lead back to itself, as in a
// tree; a value may not, and a write of one that does panics. Values of other types, and those with a codec in their
// Config, are kept as what the codec makes of them.
//
// A Memory has no goroutine and needs no closing. Its methods may be called by several goroutines at once.
type Memory struct {
	backend.Kinds
	cfg MemoryConfig

	mu sync.RWMutex

	// mu guards the following, and what is in the kinds. Items that are stored never change: a write puts another in their
	// place. So a reader copies what it found after it has left the lock.

	version informer.Version  // of the last change of any kind
	terms   map[string]uint64 // by lease: the greatest that any accepted write carried
	changed signal            // fires at each change of any kind
	kinds   map[string]*memoryKind
}

// memoryKind is the items of one kind. Memory.mu guards what is in it.
type memoryKind struct {
	live    map[string]item // by key
	gone    map[string]item // tombstones, as long as they are in the history, or until the key is created again
	history history         // the last changes of this kind
	changed signal          // fires at each change of this kind
}

// item is what a Memory keeps under a key: a *state of the type of the kind, or a *rawItem. It never changes once it is stored.
type item interface {
	itemKey() string
	itemVersion() informer.Version
	setVersion(v informer.Version) // before it is stored
	isDeleted() bool
	concerns(q *backend.Query) bool
	matches(q *backend.Query) bool
	record() (backend.Record, error)
}

// NewMemory returns an empty database. Its error is nil: every MemoryConfig is valid.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	return &Memory{cfg: cfg.withDefaults(), terms: make(map[string]uint64), kinds: make(map[string]*memoryKind)}, nil
}

// kind returns the items of a kind.
func (db *Memory) kind(name string) *memoryKind {
	db.mu.RLock()
	k := db.kinds[name]
	db.mu.RUnlock()
	if k != nil {
		return k
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if k = db.kinds[name]; k == nil {
		k = &memoryKind{live: make(map[string]item), gone: make(map[string]item), history: history{limit: db.cfg.History}}
		db.kinds[name] = k
	}
	return k
}

// find returns the item under key, which may be a tombstone, or nil; and an error if one of the terms is over.
func (db *Memory) find(k *memoryKind, key string, fences []Fence) (it item, fenced error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return k.findLocked(key), db.checkLocked(fences)
}

func (k *memoryKind) findLocked(key string) item {
	if it, ok := k.live[key]; ok {
		return it
	}
	if len(k.gone) == 0 {
		return nil
	}
	return k.gone[key]
}

func (db *Memory) checkLocked(fences []Fence) error {
	for _, f := range fences {
		if err := f.Check(db.terms[f.Lease]); err != nil {
			return err
		}
	}
	return nil
}

// commit puts next, unless it is nil, in the place of have, and records the terms. False means that have is not there any
// more, so that nothing was done.
func (db *Memory) commit(k *memoryKind, key string, have, next item, fences []Fence) (ok bool, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if k.findLocked(key) != have {
		return false, nil
	}
	if err := db.checkLocked(fences); err != nil {
		return false, err
	}
	for _, f := range fences {
		db.terms[f.Lease] = max(db.terms[f.Lease], f.Term)
	}
	if next == nil {
		return true, nil
	}
	db.version++
	next.setVersion(db.version)
	if next.isDeleted() {
		delete(k.live, key)
		k.gone[key] = next
	} else {
		k.live[key] = next
		if have != nil && have.isDeleted() {
			delete(k.gone, key)
		}
	}
	if dropped := k.history.add(next); dropped != nil && dropped.isDeleted() && k.gone[dropped.itemKey()] == dropped {
		delete(k.gone, dropped.itemKey())
	}
	k.changed.fireLocked()
	db.changed.fireLocked()
	return true, nil
}

// list returns the items of a kind that q selects, in order of key, and the version at which they are current.
func (db *Memory) list(k *memoryKind, q *backend.Query) ([]item, informer.Version) {
	db.mu.RLock()
	items := make([]item, 0, len(k.live))
	for _, it := range k.live {
		items = append(items, it)
	}
	version := db.version
	db.mu.RUnlock()
	if q.Prefix != "" || len(q.Labels) > 0 {
		items = slices.DeleteFunc(items, func(it item) bool { return !it.matches(q) })
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.itemKey(), b.itemKey()) })
	return items, version
}

// Capabilities implements [backend.Backend]. A Memory tells every state, knows no limit, and has no transactions to join.
func (db *Memory) Capabilities() backend.Capabilities { return backend.Capabilities{} }

// Get implements [backend.Backend].
func (db *Memory) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if ctx.Err() != nil {
		return backend.Record{}, context.Cause(ctx)
	}
	it, _ := db.find(db.kind(kind), key, nil)
	return recordOf(it)
}

// List implements [backend.Backend]. There is one page.
func (db *Memory) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if ctx.Err() != nil {
			yield(backend.Page{}, context.Cause(ctx))
			return
		}
		items, version := db.list(db.kind(kind), &q)
		page := backend.Page{Records: make([]backend.Record, len(items)), Version: version}
		for i, it := range items {
			var err error
			if page.Records[i], err = it.record(); err != nil {
				yield(backend.Page{}, err)
				return
			}
		}
		yield(page, nil)
	}
}

// Watch implements [backend.Backend]. See the Watch of a [Store].
func (db *Memory) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		for step, err := range db.watch(ctx, db.kind(kind), &q, after) {
			change := backend.Change{Version: step.version}
			if err == nil && step.item != nil {
				change.Record, err = step.item.record()
			}
			if err != nil {
				yield(backend.Change{}, err)
				return
			}
			if !yield(change, nil) {
				return
			}
		}
	}
}

// Transact implements [backend.Backend].
func (db *Memory) Transact(
	ctx context.Context, kind, key string, fences []Fence, decide backend.Decide,
) (backend.Record, error) {
	k := db.kind(kind)
	for {
		if ctx.Err() != nil {
			return backend.Record{}, context.Cause(ctx)
		}
		it, err := db.find(k, key, fences)
		if err != nil {
			return backend.Record{}, err
		}
		have, err := recordOf(it)
		if err != nil {
			return backend.Record{}, err
		}
		decided, err := decide(have)
		if err != nil {
			return backend.Record{}, err
		}
		var next item
		if decided != nil {
			raw := &rawItem{*decided}
			raw.Key = key
			next = raw
		}
		switch ok, err := db.commit(k, key, it, next, fences); {
		case err != nil:
			return backend.Record{}, err
		case ok && next == nil:
			return have, nil
		case ok:
			return recordOf(next)
		}
	}
}

// rawItem is an item that was written as a record.
type rawItem struct{ backend.Record }

func (r *rawItem) itemKey() string                 { return r.Key }
func (r *rawItem) itemVersion() informer.Version   { return r.Version }
func (r *rawItem) setVersion(v informer.Version)   { r.Version = v }
func (r *rawItem) isDeleted() bool                 { return r.Deleted }
func (r *rawItem) matches(q *backend.Query) bool   { return q.Matches(r.Key, r.Labels) }
func (r *rawItem) concerns(q *backend.Query) bool  { return q.Concern(&r.Record) }
func (r *rawItem) record() (backend.Record, error) { return r.Record, nil }

// recordOf returns the record of an item, or of none.
func recordOf(it item) (backend.Record, error) {
	if it == nil {
		return backend.Record{}, nil
	}
	return it.record()
}

// signal wakes whoever waits for something to happen again. All of it is guarded by the lock of its owner.
type signal struct {
	ch chan struct{} // closed by fireLocked; nil while nobody waits
}

// waitLocked returns a channel that is closed at the next fireLocked.
func (s *signal) waitLocked() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fireLocked() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// history is the last changes of one kind, in order of version: a ring of at most limit. A position counts the changes
// since the beginning, so that it keeps its meaning when old changes are dropped.
//
// Invariants:
//  1. oldest <= next, next-oldest <= limit, and changes are at the positions [oldest, next).
//  2. Versions grow with positions.
//  3. dropped is the version of the change at oldest-1, or zero when nothing was dropped.
type history struct {
	limit        int
	ring         []item // position p is at p % limit; grows up to limit
	oldest, next int
	dropped      informer.Version
}

// add appends a change, and returns the one that it drops, or nil.
func (h *history) add(c item) (dropped item) {
	switch {
	case h.limit == 0:
		dropped = c
	case len(h.ring) < h.limit:
		h.ring = append(h.ring, c)
	default:
		slot := &h.ring[h.next%h.limit]
		dropped, *slot = *slot, c
	}
	if dropped != nil {
		h.dropped = dropped.itemVersion()
		h.oldest++
	}
	h.next++
	return dropped
}

// at returns the change at position p.
func (h *history) at(p int) item { return h.ring[p%h.limit] }

// after returns the position of the first change after version v. False means that not all of them are known.
func (h *history) after(v informer.Version) (position int, ok bool) {
	if v < h.dropped {
		return 0, false
	}
	return h.oldest + sort.Search(h.next-h.oldest, func(i int) bool { return h.at(h.oldest+i).itemVersion() > v }), true
}
