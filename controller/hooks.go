package controller

// Hooks are functions that a [Controller] calls. Each may be nil. They are called without locks, by several workers at
// once, and should be fast: the worker waits for them.
type Hooks[K comparable] struct {
	// Reconciled is called after each reconcile, before its key can be handed out again: the key is still in flight. So one that
	// is Parked is not among Controller.Parked yet, and RetryParked does nothing; Add makes it come back.
	Reconciled func(Report[K])
}
