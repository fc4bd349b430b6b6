package leaderelect

import (
	"errors"
)

// Errors of a [LeaseStore]. Both are definite: the call has changed nothing. After any other error of Create and Update, the
// outcome is unknown: the write may have happened, or may still happen.
var (
	// ErrNotFound means that there is no record under the key.
	ErrNotFound = errors.New("record not found")

	// ErrConflict means that Create found a record, or that Update found none, or one with another version.
	ErrConflict = errors.New("record has changed")
)

// Reasons why a leadership is over. [Leadership.Err] returns them, and they are the causes of the contexts of a leadership
// (context.Cause). The error of [Elector.RunOnce] and the cause given to Config.OnStoppedLeading wrap them.
var (
	// ErrLeaseExpired means that no renewal was acknowledged for RenewDeadline.
	ErrLeaseExpired = errors.New("leaderelect: lease has expired")

	// ErrLeaseTaken means that the record shows another leader.
	ErrLeaseTaken = errors.New("leaderelect: lease was taken by another")

	// ErrStoreRegressed means that the store has lost data: the record is missing, or it is older than one that was seen
	// before. A backup may have been restored, or the record was changed by hand.
	ErrStoreRegressed = errors.New("leaderelect: record has gone backwards")

	// ErrDrainTimeout means that the work continued for longer than Config.DrainTimeout after the caller had canceled, or the
	// elector had resigned.
	ErrDrainTimeout = errors.New("leaderelect: work did not drain in time")

	// ErrResigned means that [Elector.Resign] or [Elector.HandOver] was called. It is the cause of the context of
	// OnStartedLeading. Leadership.Err never returns it, because the lease is kept while the work drains.
	ErrResigned = errors.New("leaderelect: leader has resigned")

	// ErrTermEnded means that the work has returned. Only goroutines that the work has left behind see it.
	ErrTermEnded = errors.New("leaderelect: work has returned and its term is over")
)

// Errors of Run.
var (
	// ErrRunning means that the elector, or the slots, run already.
	ErrRunning = errors.New("already running")

	// ErrMismatch means that the key is used in two ways: by an Elector and by the slots of package shard, or by slots with
	// two different numbers. If all of them ran, two could work on one key at the same time.
	ErrMismatch = errors.New("the key is used in another way")

	// ErrStoreStuck means that calls of the store, or of Config.Sessions, have not returned although their contexts have
	// ended. Their goroutines are left behind.
	ErrStoreStuck = errors.New("store ignores the end of a context")
)

var (
	// errUnreadable means that a record could not be decoded.
	errUnreadable = errors.New("the record cannot be read")

	// errNoTerm means that there is no term after the greatest that was seen.
	errNoTerm = errors.New("there is no greater term")
)
