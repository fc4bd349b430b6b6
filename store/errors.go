package store

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

var (
	// ErrNotFound is returned if there is no object under the key.
	ErrNotFound = errors.New("object not found")

	// ErrExists is returned by a Create if there is already an object under the key.
	ErrExists = errors.New("object already exists")

	// ErrConflict is returned if the stored object has another version or UID than the write expects. Read the object again, decide anew,
	// and write it, as [Patch] does.
	ErrConflict = fmt.Errorf("%w", conflictError{})

	// ErrFenced is returned if a write with a greater term of the same lease was accepted before, or if the write itself carries two terms
	// of one lease. The writer is no longer the leader and must not retry.
	ErrFenced = backend.ErrFenced

	// ErrInvalid is returned if a call can never succeed. The error names the part at fault: a kind, a key, a label, or another text that is
	// not allowed (see package backend); a value that the codec does not encode and decode, or that is too large for the backend; or a status
	// of a type without one.
	ErrInvalid = errors.New("invalid argument")

	// ErrDecode is returned if the record under the key does not decode. Another program, or another version of this one, has
	// written it.
	ErrDecode = errors.New("the record does not decode")
)

// conflictError has a method that package retry calls, so that a bare ErrConflict, as of a fake store, is a conflict too.
type conflictError struct{}

func (conflictError) Error() string  { return "object has changed" }
func (conflictError) Conflict() bool { return true }

// answers are the errors with which a store answers a call.
var answers = []error{ErrNotFound, ErrExists, ErrConflict, ErrFenced, ErrInvalid, ErrDecode, informer.ErrExpired}

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
	opVersion      = "version"     // of LatestVersion
	opRaiseFence   = "raise fence" // of RaiseFence
)

// Error is the error of an operation on a [Store]. Err is or wraps an error of this package, the cause of a context, or an error of the
// backend. Test it with [errors.Is]. If the cause of the context wraps an error of this package, Err does not, because the store has not
// answered. It wraps the Err of the context instead.
type Error struct {
	// Op is "open", "get", "create", "update", "update status" or "delete"; "list" for List, ListPages and Select; "watch" for
	// Watch and WatchSelected; "version" for LatestVersion; "raise fence" for RaiseFence.
	Op   string
	Kind string
	Key  string // empty if the operation has none

	// For ErrConflict, Have is the stored version, or zero if there is no object. Want is the version that the caller expects, or zero if
	// it expects none. For ErrDecode, Have is the version of the record. For informer.ErrExpired, Want is the last version that the watch
	// yielded, or at first the requested one. Have is the first version from which a watch can start, or zero if the backend does not
	// report it.
	Have, Want informer.Version

	// For ErrFenced, Lease is the lease, HaveTerm is its greatest term in the database, and WantTerm is the term of the write. If the write
	// carries two terms of the lease, they are HaveTerm and WantTerm. They are zero for any other error.
	Lease              string
	HaveTerm, WantTerm uint64

	Err error
}

// Error returns a text such as
//
//	store: update app "web": object has changed: version is 7, not 5
func (e *Error) Error() string {
	text := "store: " + e.Op
	if e.Op == opUpdateStatus {
		text += " of"
	}
	if e.Kind != "" {
		text += " " + e.Kind
	}
	if e.Key != "" {
		text += " " + strconv.Quote(e.Key)
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Conflict reports whether Err is [ErrConflict]. Package retry calls it: retry.OnConflict retries after such an error.
func (e *Error) Conflict() bool { return errors.Is(e.Err, ErrConflict) }

// failed returns err as an [*Error].
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
	return e
}

// undecodable returns the error of a list or a watch about a record that does not decode.
func (s *engine[T]) undecodable(op string, r *backend.Record, err error) error {
	return &Error{Op: op, Kind: s.kind, Key: r.Key, Have: r.Version, Err: err}
}

func (s *engine[T]) Stats() Stats { return Stats{Fenced: s.fenced.Load()} }
