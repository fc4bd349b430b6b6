package leasetest

import (
	"context"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Patience is how long the suite waits for an expected event before it fails.
const Patience = 30 * time.Second

// Backend is an empty store under test, with functions that make the system behind it fail. Only Store is required. If a
// case needs a field that is not set, the case is skipped and names the field.
//
// The goroutine of the test calls the functions, one at a time. They report their own failures, with t.Fatal of their test.
type Backend struct {
	// Store is the store under test. If it is a leaderelect.Watcher or a shard.Lister, the suite tests that too.
	Store leaderelect.LeaseStore

	// Reopen returns another store with the same records, as another process would open it.
	Reopen func() leaderelect.LeaseStore

	// Delete deletes a record by hand, like an operator with access to the backend.
	Delete func(key string)

	// Sessions, if set, are tested too.
	Sessions leaderelect.Sessions

	// Idle is how long a record is left alone, to test that it does not expire. Make it longer than every expiry time of the
	// backend.
	Idle time.Duration

	// Drop makes the network silently drop all packets between Store and its backend, in both directions. Heal ends that.
	Drop, Heal func()

	// Lock takes, through another connection, the locks that a transaction holds after it has written the records, and returns
	// the function that releases them. Writes of Store wait until then, and reads may.
	Lock func() (unlock func())

	// CutReply lets the next request of Store arrive, and cuts its connection before the reply.
	CutReply func()

	// Restart kills the server, as kill -9 does, and starts it again. It returns when the server accepts connections.
	Restart func()

	// Guard makes writes that the backend refuses for earlier leaders.
	Guard Guard

	_ [0]func()
}

// Guard makes guarded writes.
type Guard struct {
	// Do begins a transaction that is guarded by a term of the record under key, calls f within it, and ends it. If the
	// record has another term it does not call f, and returns an error that wraps Refused.
	Do func(ctx context.Context, key string, term uint64, f func()) error

	// Leading does the same with the key and the term of the leadership of ctx. Without a leadership, it does not call f, and
	// returns an error. Most calls are in the goroutine of an elector, so Leading must not call t.Fatal. Optional.
	Leading func(ctx context.Context, f func()) error

	// Refused is the error that Do and Leading wrap when they refuse a term.
	Refused error

	// Exclusive is set if every other write, including renewals, waits for a guarded transaction, because the backend has
	// one writer at a time. Otherwise renewals must not wait.
	Exclusive bool

	// AtOnce is set if a guarded write is a single step of the backend. Then f is not called, and the suite does not test
	// that a takeover waits. Terms are still compared.
	AtOnce bool
}

// Run runs every case as a subtest of t. It calls open for each case. open cleans up with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Case is one sentence of the contract. Run checks it with an empty store. It skips if the backend lacks what the case needs.
type Case struct {
	Name string
	Run  func(t testing.TB, b Backend)
}

// Cases returns the cases of [Run], for a test that shows that the suite notices a broken variant of a store.
func Cases() []Case {
	var all []Case
	for _, c := range cases() {
		all = append(all, Case{c.name, c.test})
	}
	return all
}

// reopen returns another handle of the store, or the store itself if there is none.
func (b Backend) reopen() leaderelect.LeaseStore {
	if b.Reopen == nil {
		return b.Store
	}
	return b.Reopen()
}

// testCase is a sentence of the contract, and a test that fails if the sentence does not hold. It takes a testing.TB, so
// that the suite can be tested with broken stores.
type testCase struct {
	name string
	test func(t testing.TB, b Backend)
}

// cases returns the whole suite.
func cases() []testCase {
	var all []testCase
	for _, part := range [][]testCase{
		registerCases, raceCases, contextCases, dataCases, listCases, watchCases, sessionCases, faultCases, guardCases,
	} {
		all = append(all, part...)
	}
	return all
}
