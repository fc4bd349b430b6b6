package storetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Patience is how long the suite waits for an event before it considers the event lost.
const Patience = 30 * time.Second

// Database is an empty database of the backend under test.
type Database struct {
	// Handles are clients of the one database, each with its own connections and memory, like two processes. With only one, the suite shows
	// nothing about several processes: a lock in memory would pass for a compare-and-swap.
	Handles []backend.Backend

	// Through, unless it is nil, returns the store that the suite uses instead of the given one, such as an interceptor.Store.
	Through func(store.Store[Thing]) store.Store[Thing]

	// Remembers is the minimum number of changes to one kind that the backend remembers: a watch may start from before them. Zero makes no
	// such promise. The suite skips cases that need more; none needs more than 1,000.
	Remembers int

	// Expire makes the backend forget the changes of a kind up to now: a watch that starts before must expire. It may
	// write and delete objects whose keys begin with "filler". If it is nil the suite skips the cases about it.
	Expire func(kind string) error

	// Overlap calls first in a transaction, calls second in another one, commits that of second, calls look, and commits
	// that of first. It gives each of them a context under which the stores of the Handles write in that transaction. If
	// the backend makes second wait until first has committed, it commits first, then second, and calls look in between.
	// It is for a backend whose Capabilities say that it Joins; if it is nil the suite skips the cases about it.
	Overlap func(first, second func(ctx context.Context) error, look func()) error

	_ [0]func()
}

// open returns the store of a kind through the first handle.
func (db Database) open(kind string) store.Store[Thing] { return db.through(0, kind) }

// through returns the store of a kind through handle i, modulo the number of handles.
func (db Database) through(i int, kind string) store.Store[Thing] {
	s, err := store.Open(db.Handles[i%len(db.Handles)], kind, store.Config[Thing]{Trace: traceOf})
	if err != nil {
		panic(err) // a case uses only valid kinds
	}
	if db.Through != nil {
		s = db.Through(s)
	}
	return s
}

// traceKey is the key of the trace context in the context of a write.
type traceKey struct{}

// traceOf returns the trace context of ctx, if a case has given it one.
func traceOf(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// Thing is the value of the objects that the suite stores: it has one of every kind of plain data.
type Thing struct {
	Name   string            `json:",omitempty"`
	Size   int               `json:",omitempty"`
	Tags   []string          `json:",omitempty"`
	Labels map[string]string `json:",omitempty"`
	Main   *Part             `json:",omitempty"`
	Parts  []Part            `json:",omitempty"`
	Seen   time.Time         `json:",omitzero"`
	Status Status            `json:",omitzero" store:"status"`
}

// Status is the status of a [Thing].
type Status struct {
	Phase string   `json:",omitempty"`
	Notes []string `json:",omitempty"`
}

// Part is a part of a [Thing].
type Part struct {
	Name  string `json:",omitempty"`
	Ports []int  `json:",omitempty"`
}

// Run runs every case as a subtest of t, each with a database that open makes for it.
//
// Read this list of mistakes before you write a backend. The tests of this package have a backend with each mistake, and Run finds every
// one.
//
// Versions and writes:
//
//   - A version is drawn before the commit: it comes from a sequence, an auto-increment column or a clock. A transaction
//     that commits late appears below a version that a watch has passed, and its change is lost for good.
//   - Each kind has its own sequence of versions. Or one sequence serves all, but only writers of one kind take turns.
//   - A mutex of the process stands in for a compare-and-swap. Two processes overwrite each other.
//   - A write that lost a race is repeated with its earlier decision.
//   - A tombstone is not passed to decide, or does not carry the last state of the object.
//   - Transact wraps or replaces the error of decide.
//   - A call whose context has ended writes, or a watch ends without the cause.
//
// Lists and watches:
//
//   - The version of a list is read after its records, so the list is older than its version. Or it is read before them,
//     so the list is newer.
//   - Each page of a list is read at its own version, or keys are sorted by the rules of a language.
//   - A read through one handle lags behind a write through another.
//   - A deletion is not yielded, or a change is yielded twice.
//   - A long list is cut at the limit of one request, or the prefix of a query is taken for a pattern.
//   - A watch of a query does not yield records that leave the query, does not negate a rule, or has no bookmark for what it leaves out.
//   - The history was compacted, and a watch from before that continues after it. Or a watch from a version that was never reached waits
//     for it. Both must end with ErrExpired.
//   - The history is shorter than promised, or lacks what was written under a fence.
//   - A bookmark is ahead of a change that has yet to appear, or stays behind what has happened.
//   - There is no bookmark when nothing happens, or none when another kind changes.
//
// Fences:
//
//   - All leases share one term, or each kind or process has its own terms.
//   - A term is recorded although decide returned an error or another fence was over. Or it is not recorded because there was nothing to
//     write.
//   - A write of nothing does not record its term, so a new leader cannot bar its predecessor.
//   - Only the first fence is checked, or terms are forgotten with the history.
//   - A term passes through a float, which rounds it. Or a term above 1<<63 - 1 is stored as another one, instead of being refused.
//
// Strings and bytes:
//
//   - A long key, value, or label, or the long name of a lease, is truncated, be it at 255 bytes or at a mebibyte. Keys are folded to one case, or lose trailing spaces.
//   - Bytes that are not UTF-8 are replaced, NUL is dropped, or JSON in Meta is reformatted.
//   - Labels or Before are not stored, also of a tombstone, or an empty Before becomes nil.
func Run(t *testing.T, open func(t *testing.T) Database) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// RunInBubbles is [Run] with each case in a testing/synctest bubble, where waits take no real time. It is for in-memory databases.
func RunInBubbles(t *testing.T, open func(t *testing.T) Database) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, open(t)) })
		})
	}
}

// testCase is one rule of the contract.
type testCase struct {
	name string
	run  func(t testing.TB, db Database)
}

func cases() []testCase {
	var all []testCase
	for _, part := range [][]testCase{
		objectCases, preconditionCases, raceCases, finalizerCases, watchCases, expiryCases, isolationCases, modelCases,
		statusCases, selectCases, backendCases, textCases, handleCases, sourceCases(),
	} {
		all = append(all, part...)
	}
	return all
}
