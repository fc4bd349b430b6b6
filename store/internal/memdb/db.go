package memdb

import (
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// DB is a database in memory. It has no goroutine and needs no closing. All methods of a DB and of its kinds are safe for concurrent
// use.
type DB struct {
	limit int // of each history

	mu sync.RWMutex

	// mu guards the following, and the fields of each Kind but db. Stored items are immutable, so a reader copies an item after it has
	// released the lock.

	version informer.Version  // of the last change of any kind
	terms   map[string]uint64 // by lease: the greatest term of an accepted write
	changed signal            // fires at each change of any kind
	kinds   map[string]*Kind
}

// Kind holds the items of one kind.
type Kind struct {
	db *DB

	live    map[string]Item // by key
	gone    map[string]Item // tombstones that are in the history, unless the key was created again
	history history         // the last changes of this kind
	changed signal          // fires at each change of this kind
}

// Item is an object or a tombstone. It is immutable once it is stored, so its methods may be called without locks.
type Item interface {
	ItemKey() string
	ItemVersion() informer.Version

	// SetVersion is called once, with the lock of the DB held, before the item is stored.
	SetVersion(v informer.Version)

	// IsDeleted reports whether the item is a tombstone.
	IsDeleted() bool

	// Matches reports whether q selects the item.
	Matches(q *backend.Query) bool

	// Concerns reports whether q selects the item, or did before the change that made it.
	Concerns(q *backend.Query) bool

	// Record returns the item for a backend that keeps bytes. The error says why the item cannot be encoded.
	Record() (backend.Record, error)
}

// New returns an empty DB that keeps the last changes of each kind, at most history of them.
func New(history int) *DB {
	return &DB{limit: history, terms: make(map[string]uint64), kinds: make(map[string]*Kind)}
}

// Kind returns the kind of that name. All calls with one name return the same Kind.
func (db *DB) Kind(name string) *Kind {
	db.mu.RLock()
	k := db.kinds[name]
	db.mu.RUnlock()
	if k != nil {
		return k
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if k = db.kinds[name]; k == nil {
		k = &Kind{db: db, live: make(map[string]Item), gone: make(map[string]Item), history: history{limit: db.limit}}
		db.kinds[name] = k
	}
	return k
}

// Find returns the item under key, which may be a tombstone, or nil. If a greater term of a lease in fences was accepted before, it
// also returns a [backend.FencedError].
func (k *Kind) Find(key string, fences []backend.Fence) (it Item, fenced error) {
	k.db.mu.RLock()
	defer k.db.mu.RUnlock()
	return k.findLocked(key), k.db.checkLocked(fences)
}

func (k *Kind) findLocked(key string) Item {
	if it, ok := k.live[key]; ok {
		return it
	}
	if len(k.gone) == 0 {
		return nil
	}
	return k.gone[key]
}

func (db *DB) checkLocked(fences []backend.Fence) error {
	for _, f := range fences {
		if err := f.Check(db.terms[f.Lease]); err != nil {
			return err
		}
	}
	return nil
}

// Commit replaces have with next and records the terms of fences. If next is nil, Commit only records the terms. If have is no longer the
// item under key, Commit changes nothing and returns false. If a term is over, it changes nothing and returns a [backend.FencedError].
func (k *Kind) Commit(key string, have, next Item, fences []backend.Fence) (ok bool, err error) {
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
	next.SetVersion(db.version)
	if next.IsDeleted() {
		delete(k.live, key)
		k.gone[key] = next
	} else {
		k.live[key] = next
		if have != nil && have.IsDeleted() {
			delete(k.gone, key)
		}
	}
	if dropped := k.history.add(next); dropped != nil && dropped.IsDeleted() && k.gone[dropped.ItemKey()] == dropped {
		delete(k.gone, dropped.ItemKey())
	}
	k.changed.fireLocked()
	db.changed.fireLocked()
	return true, nil
}

// List returns the live items that q selects, in order of key, and the version at which the list is current.
func (k *Kind) List(q *backend.Query) ([]Item, informer.Version) {
	k.db.mu.RLock()
	items := make([]Item, 0, len(k.live))
	for _, it := range k.live {
		items = append(items, it)
	}
	version := k.db.version
	k.db.mu.RUnlock()
	if q.Prefix != "" || len(q.Labels) > 0 {
		items = slices.DeleteFunc(items, func(it Item) bool { return !it.Matches(q) })
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.ItemKey(), b.ItemKey()) })
	return items, version
}
