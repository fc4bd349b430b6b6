package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Memory is a database in memory: a [backend.Backend] for objects of many kinds. [Open] returns the store of one kind.
//
// A Memory keeps the same bytes as any other backend, so a value that a database would reject or change fails in a test on a Memory too.
//
// Versions start at 1 and increase by one with each change of any kind. So the versions of two objects of different kinds tell which
// was written first.
//
// A watch is a position in the history of its kind: it has no goroutine and no buffer, and a slow consumer delays no other code. No lock is
// held while your code runs. A Memory has no goroutine and needs no closing. All methods are safe for concurrent use.
type Memory struct {
	backend.Kinds
	limit int // of each history

	mu sync.RWMutex
	// mu guards the following, and the fields of each memoryKind but db. A stored record is immutable, so a reader may keep it after it
	// has released the lock.
	version informer.Version  // of the last change of any kind
	terms   map[string]uint64 // by lease: the greatest term of an accepted write
	changed broadcast.Signal  // wakes at each change of any kind
	kinds   map[string]*memoryKind
}

// memoryKind holds the records of one kind.
type memoryKind struct {
	db *Memory

	live       map[string]*backend.Record // by key
	tombstones map[string]*backend.Record // those in the history, unless the key was created again
	history    history                    // the last changes of this kind
	changed    broadcast.Signal           // wakes at each change of this kind
}

// MemoryConfig is the configuration of a [Memory]. Its zero value is ready to use, and every value is valid.
type MemoryConfig struct {
	// History is the number of changes of each kind that a Memory keeps for watches. A watch that starts or falls further back ends with
	// [informer.ErrExpired]. Each kind has its own history, so a busy kind does not expire the watches of a quiet one. Defaults to 4096; a
	// negative number keeps none.
	History int

	_ [0]func()
}

// NewMemory returns an empty database.
func NewMemory(cfg MemoryConfig) *Memory {
	return &Memory{
		limit: max(cmp.Or(cfg.History, 4096), 0), terms: make(map[string]uint64), kinds: make(map[string]*memoryKind),
	}
}

// Capabilities implements [backend.Backend]. A Memory has no limits, and has no transactions to join.
func (db *Memory) Capabilities() backend.Capabilities { return backend.Capabilities{} }

// kind returns the kind of that name.
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
		k = &memoryKind{
			db: db, live: make(map[string]*backend.Record), tombstones: make(map[string]*backend.Record), history: history{limit: db.limit},
		}
		db.kinds[name] = k
	}
	return k
}

// Get implements [backend.Backend].
func (db *Memory) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if ctx.Err() != nil {
		return backend.Record{}, context.Cause(ctx)
	}
	r, _ := db.kind(kind).find(key, nil)
	return valueOf(r), nil
}

// Version implements [backend.Versioner].
func (db *Memory) Version(ctx context.Context) (informer.Version, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	db.mu.RLock()
	defer db.mu.RUnlock()
	return db.version, nil
}

// List implements [backend.Backend]. It yields one page.
func (db *Memory) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if ctx.Err() != nil {
			yield(backend.Page{}, context.Cause(ctx))
			return
		}
		k := db.kind(kind)
		db.mu.RLock()
		page := backend.Page{Records: make([]backend.Record, 0, len(k.live)), Version: db.version}
		for _, r := range k.live {
			page.Records = append(page.Records, *r)
		}
		db.mu.RUnlock()
		if q.Prefix != "" || len(q.Labels) > 0 {
			page.Records = slices.DeleteFunc(page.Records, func(r backend.Record) bool { return !q.Matches(r.Key, r.Labels) })
		}
		slices.SortFunc(page.Records, func(a, b backend.Record) int { return strings.Compare(a.Key, b.Key) })
		yield(page, nil)
	}
}

// Transact implements [backend.Backend]. It calls decide again if the record has changed in the meantime.
func (db *Memory) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	k := db.kind(kind)
	for {
		if ctx.Err() != nil {
			return backend.Record{}, context.Cause(ctx)
		}
		have, err := k.find(key, fences)
		if err != nil {
			return backend.Record{}, err
		}
		decided, err := decide(valueOf(have))
		if err != nil {
			return backend.Record{}, err
		}
		var next *backend.Record
		if decided != nil {
			r := *decided // the caller may keep its record
			r.Key = key
			next = &r
		}
		switch ok, err := k.commit(key, have, next, fences); {
		case err != nil:
			return backend.Record{}, err
		case ok:
			return valueOf(cmp.Or(next, have)), nil
		}
	}
}

// valueOf returns the record at r, or an empty one if r is nil.
func valueOf(r *backend.Record) backend.Record {
	if r == nil {
		return backend.Record{}
	}
	return *r
}

// find returns the record under key, which may be a tombstone, or nil. If a greater term of a lease in fences was accepted before, it
// returns a [backend.FencedError].
func (k *memoryKind) find(key string, fences []backend.Fence) (*backend.Record, error) {
	k.db.mu.RLock()
	defer k.db.mu.RUnlock()
	return k.findLocked(key), k.db.checkLocked(fences)
}

func (k *memoryKind) findLocked(key string) *backend.Record {
	if r, ok := k.live[key]; ok {
		return r
	}
	return k.tombstones[key]
}

func (db *Memory) checkLocked(fences []backend.Fence) error {
	for _, f := range fences {
		if err := f.Check(db.terms[f.Lease]); err != nil {
			return err
		}
	}
	return nil
}

// commit replaces have with next and records the terms of fences. If next is nil, commit only records the terms. If have is no longer the
// record under key, commit changes nothing and returns false. If a term is over, it changes nothing and returns a [backend.FencedError].
func (k *memoryKind) commit(key string, have, next *backend.Record, fences []backend.Fence) (ok bool, err error) {
	db := k.db
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
	next.Version = db.version
	if next.Deleted {
		delete(k.live, key)
		k.tombstones[key] = next
	} else {
		k.live[key] = next
		if have != nil && have.Deleted {
			delete(k.tombstones, key)
		}
	}
	if dropped := k.history.add(next); dropped != nil && k.tombstones[dropped.Key] == dropped {
		delete(k.tombstones, dropped.Key)
	}
	k.changed.Wake()
	db.changed.Wake()
	return true, nil
}

// history is a ring of the last changes of one kind, in order of version, at most limit of them. A position counts all changes since
// the first one, so dropping old changes leaves positions valid.
//
// Invariants:
//  1. oldest <= next, next-oldest <= limit, and changes are at the positions [oldest, next).
//  2. Versions increase with positions.
//  3. dropped is the version of the change at oldest-1, or zero if nothing was dropped.
type history struct {
	limit        int
	ring         []*backend.Record // position p is at p % limit; grows up to limit
	oldest, next int
	dropped      informer.Version
}

// add appends a change. It returns the change that it drops, or nil.
func (h *history) add(r *backend.Record) (dropped *backend.Record) {
	switch {
	case h.limit == 0:
		dropped = r
	case len(h.ring) < h.limit:
		h.ring = append(h.ring, r)
	default:
		slot := &h.ring[h.next%h.limit]
		dropped, *slot = *slot, r
	}
	if dropped != nil {
		h.dropped = dropped.Version
		h.oldest++
	}
	h.next++
	return dropped
}

// at returns the change at position p.
func (h *history) at(p int) *backend.Record { return h.ring[p%h.limit] }

// after returns the position of the first change after version v. It returns false if some of those changes were dropped.
func (h *history) after(v informer.Version) (position int, ok bool) {
	if v < h.dropped {
		return 0, false
	}
	return h.oldest + sort.Search(h.next-h.oldest, func(i int) bool { return h.at(h.oldest+i).Version > v }), true
}
