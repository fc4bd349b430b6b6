package store

import (
	"errors"
	"strconv"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
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

	// ErrExpired ends a watch that cannot say what has changed. List, and watch from there.
	ErrExpired = informer.ErrExpired

	// ErrNoStatus says that the type of the values has no status: see [Statused].
	ErrNoStatus = errors.New("the type has no status")

	// ErrRequest says that the id given to [Once] belongs to another write of the object. It is a mistake in the program:
	// give each write an id of its own.
	ErrRequest = errors.New("the request id belongs to another write")

	// ErrInvalid says that something cannot be stored: a kind, a key or a label that is not allowed (see package
	// backend), or a value that its codec does not encode. The error names it.
	ErrInvalid = errors.New("it cannot be stored")

	// ErrDecode says that there is a record under the key, and it does not decode. Somebody else has written it, or an
	// older or newer program.
	ErrDecode = errors.New("the record does not decode")

	// ErrTooLarge says that an object is larger than the backend takes.
	ErrTooLarge = backend.ErrTooLarge
)

// The operations that an [Error] names.
const (
	OpOpen         = "open"
	OpGet          = "get"
	OpList         = "list"  // of List, ListPages and Select
	OpWatch        = "watch" // of Watch and WatchSelected
	OpCreate       = "create"
	OpUpdate       = "update"
	OpUpdateStatus = "update status of"
	OpDelete       = "delete"
)

// Error says which operation failed on what. Err is or wraps one of the errors of this package, the cause of a context,
// or whatever a backend met; ask with [errors.Is].
type Error struct {
	Op   string // one of the Op constants
	Kind string
	Key  string // empty when the operation has none

	// Have and Want are, for ErrConflict, the version that the store had, zero when the object is not there, and the one
	// that the caller asked for, zero when none. For ErrDecode, Have is the version of the record. For ErrExpired, Have is
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
	text := "store: " + e.Op + " " + e.Kind
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
	e = &Error{Op: op, Kind: kind, Key: key, Err: err}
	var fenced *backend.FencedError
	if errors.As(err, &fenced) {
		e.Lease, e.HaveTerm, e.WantTerm = fenced.Fence.Lease, fenced.Have, fenced.Fence.Term
	}
	var bad *decodeError
	if errors.As(err, &bad) {
		e.Have = bad.version
	}
	var expired *expiredError
	if errors.As(err, &expired) {
		e.Have, e.Want = expired.first, expired.asked
	}
	return e
}
