package store

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
)

// Memory is a database in memory, of objects of many kinds. [Open] gives access to those of one kind.
//
// There is one version counter over all kinds: each write that changes something raises it by one, so that the versions
// of two objects of two kinds tell which was written first. There is one greatest term over all kinds, too.
//
// A Memory has no goroutine and needs no closing. Its methods may be called by several goroutines at once.
type Memory struct {
	cfg MemoryConfig

	mu sync.RWMutex

	// mu guards the following, and what the stores of all kinds hold. Objects that are stored never change: a write
	// puts another in their place. So a reader copies what it found after it has left the lock.

	version informer.Version // of the last change of any kind
	term    uint64           // the greatest that any accepted write carried
	changed signal           // fires at each change of any kind
	kinds   map[string]any   // a *MemoryStore[T] each
	writes  requests         // that carried an id
}

// NewMemory returns an empty database. Its error is nil: every MemoryConfig is valid.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	cfg = cfg.withDefaults()
	return &Memory{cfg: cfg, kinds: make(map[string]any), writes: requests{limit: cfg.Requests}}, nil
}

// Open returns the store of one kind of objects in db. To open a kind again gives the same objects; it is an error to
// do so with another T.
//
// T has to be plain data: booleans, numbers, strings, [time.Time], and arrays, slices, maps, pointers and structs of
// plain data, where a struct has exported fields only and the keys of a map hold no pointer, float or time. T may lead
// back to itself, as in a tree; a value may not, and a write of one that does panics. For any other T, Open returns an
// error that names the field. To store such a type, store its encoding.
func Open[T any](db *Memory, kind string) (*MemoryStore[T], error) {
	fail := func(err error) (*MemoryStore[T], error) { return nil, &Error{Op: OpOpen, Kind: kind, Err: err} }
	if kind == "" {
		return fail(errNoKind)
	}
	t := reflect.TypeFor[T]()
	plain, err := plainOf(t, t.String(), make(map[reflect.Type]*plain))
	if err != nil {
		return fail(err)
	}
	withStatus, err := statusOf[T]()
	if err != nil {
		return fail(err)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	switch s := db.kinds[kind].(type) {
	case *MemoryStore[T]:
		return s, nil
	case nil:
		opened := &MemoryStore[T]{
			db:      db,
			kind:    kind,
			values:  newValues[T](plain),
			objects: make(map[string]*Object[T]),
			history: history[T]{limit: db.cfg.History},

			withStatus: withStatus,
		}
		db.kinds[kind] = opened
		return opened, nil
	default:
		return fail(fmt.Errorf("it is open as a %T already, not of %s", s, t))
	}
}

// nextVersionLocked counts a change of any kind.
func (db *Memory) nextVersionLocked() informer.Version {
	db.version++
	return db.version
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
