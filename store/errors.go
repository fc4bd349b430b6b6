package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/internal/memdb"
)

var (
	// ErrNotFound says that there is no object under the key.
	ErrNotFound = errors.New("object not found")

	// ErrExists says that there is an object under the key already.
	ErrExists = errors.New("object exists already")

	// ErrConflict says that the stored object is not the one that the write was meant for: it has another version or
	// another UID. Read it again, decide again, write again.
	ErrConflict = errors.New("object has changed")

	// ErrFenced says that a write with a greater term of the same lease was accepted before: the writer does not lead any
	// more. It must not try again.
	ErrFenced = backend.ErrFenced

	// ErrInvalid says that no store could accept the write: a kind, a key, or a label is not allowed (see package backend), the
	// codec does not encode the value, the object is larger than the backend takes, the type has no status to update, or the
	// [RequestID] belongs to another operation. The error names the part that is wrong.
	ErrInvalid = errors.New("it cannot be stored")

	// ErrDecode says that there is a record under the key, and it does not decode. Somebody else has written it, or an
	// older or newer program.
	ErrDecode = errors.New("the record does not decode")
)

// The operations that an [Error] names.
const (
	opOpen         = "open"
	opGet          = "get"
	opList         = "list"  // of List, ListPages and Select
	opWatch        = "watch" // of Watch and WatchSelected
	opCreate       = "create"
	opUpdate       = "update"
	opUpdateStatus = "update status"
	opDelete       = "delete"
)

// Error says which operation failed on what. Err is or wraps one of the errors of this package, the cause of a context,
// or whatever a backend met; ask with [errors.Is].
type Error struct {
	// Op is "open", "get", "create", "update", "update status" or "delete"; "list" for List, ListPages and Select; "watch" for
	// Watch and WatchSelected.
	Op   string
	Kind string
	Key  string // empty when the operation has none

	// Have and Want are, for ErrConflict, the version that the store had, zero when the object is not there, and the one
	// that the caller asked for, zero when none. For ErrDecode, Have is the version of the record. For informer.ErrExpired, Have is
	// the first version from which a watch could still start, if the backend says so, and Want the one that was asked for.
	Have, Want informer.Version

	// Lease, HaveTerm and WantTerm are, for ErrFenced, the lease, the greatest term of it that the database has seen, and
	// the one that the write carried. Zero for any other error.
	Lease              string
	HaveTerm, WantTerm uint64

	Err error
}

// Error returns "store: update apps "web": object has changed: version is 7, not 5".
func (e *Error) Error() string {
	text := "store: " + e.Op + " "
	if e.Op == opUpdateStatus {
		text += "of "
	}
	text += e.Kind
	if e.Key != "" {
		text += " " + strconv.Quote(e.Key)
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Conflict says whether to read again and try again: it is true for [ErrConflict] alone. It is what retry.OnConflict
// asks.
func (e *Error) Conflict() bool { return errors.Is(e.Err, ErrConflict) }

// failed returns err as an error of an operation.
func failed(op, kind, key string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	if errors.Is(err, backend.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e = &Error{Op: op, Kind: kind, Key: key, Err: err}
	var fenced *backend.FencedError
	if errors.As(err, &fenced) {
		e.Lease, e.HaveTerm, e.WantTerm = fenced.Fence.Lease, fenced.Have, fenced.Fence.Term
	}
	var bad *decodeError
	if errors.As(err, &bad) {
		e.Have = bad.version
	}
	var expired *memdb.ExpiredError
	if errors.As(err, &expired) {
		e.Have, e.Want = expired.First, expired.Asked
	}
	return e
}

// bad are the records that were met and did not decode.
type bad struct {
	count atomic.Int64 // of records; so that nobody takes the lock where all is well

	mu sync.Mutex
	// mu guards the following.
	records map[string]*Error // by key
}

// add notes e. False means that this version was noted before.
func (b *bad) add(e *Error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.records[e.Key]; ok && known.Have >= e.Have {
		return false
	}
	if b.records == nil {
		b.records = make(map[string]*Error)
	}
	b.records[e.Key] = e
	b.count.Store(int64(len(b.records)))
	return true
}

// remove forgets a key: it was repaired, or is gone.
func (b *bad) remove(key string) {
	if b.count.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.records, key)
	b.count.Store(int64(len(b.records)))
}

// keep forgets all keys but these.
func (b *bad) keep(keys map[string]bool) {
	if b.count.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.records, func(key string, _ *Error) bool { return !keys[key] })
	b.count.Store(int64(len(b.records)))
}

func (b *bad) all() []*Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.records), func(a, b *Error) int { return cmp.Compare(a.Key, b.Key) })
}

// report notes and reports a record that does not decode.
func (s *engine[T]) report(op string, r unread) {
	e := &Error{Op: op, Kind: s.kind, Key: r.key, Have: r.version, Err: r.err}
	if !s.bad.add(e) {
		return
	}
	s.cfg.Logger.Warn("store: a record does not decode", "kind", e.Kind, "key", e.Key, "version", e.Have, "error", e.Err)
	if s.cfg.OnUndecodable != nil {
		s.cfg.OnUndecodable(e)
	}
}

func (s *engine[T]) Stats() Stats {
	return Stats{Undecodable: s.bad.all(), Fenced: s.fenced.Load()}
}
