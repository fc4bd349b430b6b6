package leasetest

import (
	"context"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Patience is how long the suite waits for what has to come, before it says that it does not.
const Patience = 30 * time.Second

// Backend is an empty store under test, and what the suite may do to what is behind it. Only Store is required. A case
// that needs a field that is not set is skipped, and says which one.
//
// The functions are called by the goroutine of the test, one at a time. They report their own failures, by t.Fatal of the
// test that they were made for.
type Backend struct {
	// Store is under test. If it is a leaderelect.Watcher or a shard.Lister, that is tested too.
	Store leaderelect.LeaseStore

	// Reopen returns another store that has the same records, as another process would open it.
	Reopen func() leaderelect.LeaseStore

	// Delete deletes a record by hand, as somebody with access to the backend can.
	Delete func(key string)

	// Idle is how long a record is left alone, to see that it does not go away. Make it longer than the time after
	// which the backend forgets anything.
	Idle time.Duration

	// Drop makes the network lose everything between Store and its backend, in both directions and without a word. Heal
	// ends that.
	Drop, Heal func()

	// CutReply lets the next request of Store arrive, and cuts its connection in the place of the reply.
	CutReply func()

	// Restart kills the server, as kill -9 does, and starts it again. It returns when the server takes connections.
	Restart func()

	// Guard is the recipe of the backend for writes that a leader of the past cannot make.
	Guard Guard

	_ [0]func()
}

// Guard makes guarded writes.
type Guard struct {
	// Do begins a transaction that is guarded by a term of the record under key, calls f within it, and ends it. If the
	// record has another term it does not call f, and returns an error that wraps Refused.
	Do func(ctx context.Context, key string, term uint64, f func()) error

	// Leading does the same for the leadership of ctx, whose key and term it takes from there. Optional.
	Leading func(ctx context.Context, f func()) error

	// Refused is the error that Do and Leading wrap when they refuse a term.
	Refused error

	// Exclusive says that every other write waits for a guarded transaction, renewals too, as where there is one writer
	// at a time. Otherwise renewals must not wait.
	Exclusive bool

	// AtOnce says that a guarded write is a single step of the backend, so f is not called and there is nothing to
	// wait for. Terms are still compared.
	AtOnce bool
}

// Run runs every case as a subtest of t, each with a backend that open makes for it and cleans up with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// reopen returns another handle of the store, or the store itself if there is none.
func (b Backend) reopen() leaderelect.LeaseStore {
	if b.Reopen == nil {
		return b.Store
	}
	return b.Reopen()
}

// testCase is a sentence of the contract, and a test that fails where it does not hold. It takes a testing.TB so that
// the suite can be tested with stores that are broken.
type testCase struct {
	name string
	test func(t testing.TB, b Backend)
}

// cases returns the whole suite.
func cases() []testCase {
	var all []testCase
	for _, part := range [][]testCase{
		registerCases, raceCases, contextCases, dataCases, listCases, watchCases, faultCases, guardCases,
	} {
		all = append(all, part...)
	}
	return all
}
