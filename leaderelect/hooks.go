package leaderelect

import (
	"context"
	"time"
)

// Hooks observe an [Elector]. Each may be nil. They are called without locks and should be fast: the work begins when
// StartedLeading returns, and a renewal waits for Request. A panic in a hook is captured and logged. StartedLeading and
// StoppedLeading are called one at a time, Request also beside them. With [Elector.Stats] they give the two metrics of
// client-go's leaderelection:
//
//	leader_election_master_status    StartedLeading and StoppedLeading, or Stats: Leading
//	leader_election_slowpath_total   Request, with the operation "get", while the elector leads
type Hooks struct {
	// StartedLeading is called when a term begins, before its work does.
	StartedLeading func(term uint64)

	// StoppedLeading is called when the work of a term has returned, and before the lease is released, with the cause that
	// OnStoppedLeading gets.
	StoppedLeading func(term uint64, cause error)

	// Request is called after each call of the store, or when it was given up, with the operation ("get", "create" or
	// "update") and how long it took.
	Request func(operation string, took time.Duration, err error)
}

// notify calls a hook.
func (e *Elector) notify(hook string, f func()) {
	if err := guard(context.Background(), func(context.Context) error { f(); return nil }); err != nil {
		e.log.Error("leaderelect: a hook failed", "hook", hook, "error", err)
	}
}
