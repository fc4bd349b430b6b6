package leaderelect

import (
	"errors"
)

// What a [LeaseStore] answers. Both are definite: the call has changed nothing. After any other error of Create and Update
// the outcome is unknown: the write may have happened, or may yet happen.
var (
	// ErrNotFound says that there is no record under the key.
	ErrNotFound = errors.New("leaderelect: record not found")

	// ErrConflict says that the record under the key is not the one that the write was meant to replace: Create found a
	// record, or Update found none, or one with another version.
	ErrConflict = errors.New("leaderelect: record has changed")
)

// Why a leadership is over: what [Leadership.Err] returns, and the cause of the contexts of a leadership
// (context.Cause). They are also in the error of [Elector.RunOnce] and in the cause given to Config.OnStoppedLeading.
var (
	// ErrLeaseExpired says that no renewal was acknowledged for RenewDeadline.
	ErrLeaseExpired = errors.New("leaderelect: lease has expired")

	// ErrLeaseTaken says that the record was seen in the hands of another.
	ErrLeaseTaken = errors.New("leaderelect: lease was taken by another")

	// ErrStoreRegressed says that the store has forgotten something: the record is gone, or it is older than one that
	// was seen before. A backup may have been restored, or the record was changed by hand.
	ErrStoreRegressed = errors.New("leaderelect: record has gone backwards")

	// ErrDrainTimeout says that the work continued for longer than Config.DrainTimeout after the caller had canceled.
	ErrDrainTimeout = errors.New("leaderelect: work did not drain in time")

	// ErrResigned says that [Elector.Resign] or [Elector.HandOver] was called. The lease is kept while the work drains: it
	// is the cause of the context of OnStartedLeading, and never what Leadership.Err returns.
	ErrResigned = errors.New("leaderelect: leader has resigned")

	// ErrTermEnded says that the work had returned. Only goroutines that the work has left behind see it.
	ErrTermEnded = errors.New("leaderelect: work has returned and its term is over")
)

// How a run ends that does not end with nil.
var (
	// ErrRunning says that the elector, or the slots, run already.
	ErrRunning = errors.New("leaderelect: already running")

	// ErrMismatch says that the key is used in two ways: by an Elector and by the slots of package shard, or by slots of two
	// numbers. If all ran, two of them could work on one key at the same time.
	ErrMismatch = errors.New("leaderelect: the key is used in another way")

	// ErrStoreStuck says that calls of the store, or of Config.Sessions, have not returned, although their contexts have
	// ended. Their goroutines are left behind.
	ErrStoreStuck = errors.New("leaderelect: store ignores the end of a context")
)

var (
	// errUnreadable says that a record could not be decoded.
	errUnreadable = errors.New("the record cannot be read")

	// errNoTerm says that there is no term after the last that was seen.
	errNoTerm = errors.New("leaderelect: there is no greater term")
)
