package controller

import "errors"

var (
	// ErrPartExists says that a part cannot be added to a [Manager], because another has its name, or has not ended yet
	// after it was removed.
	ErrPartExists = errors.New("controller: there is one of this name")

	// ErrNotSharded says that a controller cannot be added to a [Manager] that has [ManagerConfig.Slots], because it would
	// reconcile the keys of all slots.
	ErrNotSharded = errors.New("controller: the controller does not share its keys")

	// ErrNoPart says that a [Manager] has no part of the name that was to be removed.
	ErrNoPart = errors.New("controller: there is none of this name")

	// ErrStopped says that a part cannot be added to a [Manager] any more, because its stop has begun.
	ErrStopped = errors.New("controller: the manager has been stopped")

	// ErrSignal is in the chain of the cause with which the context of [RunUntilSignal] ends at a signal.
	ErrSignal = errors.New("controller: received signal")

	// errRemoved is the cause with which the context of a part ends that is removed.
	errRemoved = errors.New("controller: removed from the manager")
)
