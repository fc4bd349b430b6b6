package informertest

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// Patience is how long the suite waits for an event, or for a watch to end, before it says that it never will.
const Patience = 30 * time.Second

// Subject is a source under test, and what the suite needs to work with it. The source is empty.
type Subject[T any] struct {
	// Source is under test. If it is an [informer.Pager], so are its pages.
	Source informer.ListWatcher[T]

	// Put creates the object of the given name, or changes it, so that its revision is rev. It returns when the change
	// is committed: a list that begins then shows it. The suite calls Put and Delete concurrently for different names.
	Put func(name string, rev int) error

	// Delete deletes the object of the given name, in the same way.
	Delete func(name string) error

	// Overlap makes two changes in transactions that overlap: it begins first, begins second, commits second, calls look,
	// and commits first. If the source makes the second writer wait until the first has committed, Overlap commits
	// first, then second, and calls look between the two. Both changes are of different names.
	//
	// This is the mistake that sources in SQL make most often: see [informer.Version]. If Overlap is nil the cases about it
	// are skipped, and the suite shows nothing about the order of commits. Set it unless the source cannot have two
	// changes in flight.
	Overlap func(first, second Change, look func()) error

	// Read returns the name and the revision of an object.
	Read func(obj T) (name string, rev int)

	// History is the number of changes that the source remembers at least: a watch may start after a version that so
	// many changes have followed. Cases that need more are skipped; the most that one needs is three for each of Objects.
	// Zero is a source that promises nothing.
	History int

	// Merges says that a watch may skip a state of an object that a later change has replaced, as a source does that keeps
	// only the last state of each object. It must not skip the last state, nor the deletion of an object that a consumer
	// has seen and that is gone. If it skips a creation, the next state of the object may come as Modified.
	Merges bool

	// Objects is how many objects the case about long lists has. Defaults to 100. For a source that lists in pages it
	// should be more than fits on two.
	Objects int

	// Expire lets the source forget its history: a watch that starts at a version before the present one has to expire.
	// If it is nil the cases about it are skipped.
	Expire func() error

	// Bookmark makes the source send a bookmark to the watches that are open. If it is nil the case about it is skipped.
	Bookmark func() error

	_ [0]func()
}

// Run checks that a source keeps the contract of [informer.ListWatcher], on which the guarantees of an informer depend.
// It runs every case as a subtest of t, each with a source that open makes for it.
//
// Read this list of mistakes before you write a source. The tests of this package hold a source with each of them, and Run
// finds every one:
//
//   - Versions come from a sequence, an auto-increment column or a clock. A transaction that commits late appears below a
//     version that a watch has passed, and its change is lost for good. Run finds this only if Subject.Overlap is set, or
//     by chance if Put is called concurrently.
//   - A bookmark or the version of a list is ahead of a change that is still to come.
//   - A list is older or newer than its version, its pages are of two versions, or an object stands on two pages.
//   - A deletion is not told, or does not carry the last state of the object.
//   - An event is told twice, out of order, or with the type of another.
//   - A watch begins with the present instead of the version that it was given.
//   - The history was cut, and a watch from before the cut does not end with ErrExpired.
//   - Equal returns false for a state that did not change, or true for one that did.
//   - A watch does not end with its context, ends without an error, or goes on after one.
//   - Two watches share their events.
func Run[T any](t *testing.T, open func(t *testing.T) Subject[T]) {
	for _, c := range Cases[T]() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t)) })
	}
}

// Case is one sentence of the contract. Run checks it with an empty source.
type Case[T any] struct {
	Name string
	Run  func(t testing.TB, s Subject[T])
}

// Cases returns the cases of [Run], for a suite that has them among its own.
func Cases[T any]() []Case[T] {
	var all []Case[T]
	for _, c := range cases[T]() {
		all = append(all, Case[T]{c.name, c.run})
	}
	return all
}

// testCase is one sentence of the contract.
type testCase[T any] struct {
	name string
	run  func(t testing.TB, s Subject[T])
}

func cases[T any]() []testCase[T] {
	return slices.Concat(listCases[T](), pageCases[T](), watchCases[T](), overlapCases[T](), equalCases[T](), endCases[T]())
}
