package informertest

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// Patience is how long the suite waits for an event, or for a watch to end, before it fails the test.
const Patience = 30 * time.Second

// Subject is an empty source under test, with the functions that the suite needs to drive it.
type Subject[T any] struct {
	// Source is the source under test. If it is an [informer.Pager], its pages are tested too.
	Source informer.ListWatcher[T]

	// Put creates the object with the given name, or changes it, so that its revision is rev. It returns when the change is committed: a
	// list that begins after that shows it. The suite calls Put and Delete concurrently for different names.
	Put func(name string, rev int) error

	// Delete deletes the object with the given name, in the same way.
	Delete func(name string) error

	// Overlap makes two changes in transactions that overlap: it begins first, begins second, commits second, calls look, and commits
	// first. If the source makes the second writer wait until the first has committed, Overlap commits first, then second, and calls look
	// between the two. The two changes are to different names.
	//
	// SQL sources most often fail here: see [informer.Version]. If Overlap is nil, its cases are skipped, and the suite shows nothing about
	// the order of commits. Set it unless the source cannot have two changes in flight.
	Overlap func(first, second Change, look func()) error

	// Read returns the name and the revision of an object.
	Read func(obj T) (name string, rev int)

	// History is the minimum number of changes that the source remembers: a watch may start after a version that this many changes have
	// followed. Cases that need more are skipped; none needs more than ten, or than three for each of Objects. Zero promises nothing.
	History int

	// Merges means that a watch may skip a state of an object that a later change has replaced. A source that keeps only the last state
	// of each object does so. The watch must not skip the last state, nor the deletion of an object that a consumer has seen and that
	// is gone. If it skips a creation, it may yield the next state of the object as Modified.
	Merges bool

	// Objects is the number of objects in the case for long lists. Defaults to 100. For a source that lists in pages, it should be more
	// than two pages hold.
	Objects int

	// Expire makes the source forget its history: a watch that starts before the current version must expire. If it is nil, its cases are
	// skipped.
	Expire func() error

	// Bookmark makes the source send a bookmark to all open watches. If it is nil, its case is skipped.
	Bookmark func() error

	_ [0]func()
}

// Run checks that a source keeps the contract of [informer.ListWatcher], on which the guarantees of an informer depend.
// It runs every case as a subtest of t, each with a source that open makes for it.
//
// Read this list of mistakes before you write a source. The tests of this package have a source with each mistake, and Run finds every one:
//
//   - Versions come from a sequence, an auto-increment column or a clock. A transaction that commits late appears below a
//     version that a watch has passed, and its change is lost for good. Run finds this only if Subject.Overlap is set, or
//     by chance if Put is called concurrently.
//   - A bookmark or the version of a list is ahead of a change that has yet to appear.
//   - A list is older or newer than its version, its pages have two versions, or an object is on two pages.
//   - A deletion is not reported, or does not carry the last state of the object.
//   - An event is yielded twice, out of order, or with the wrong type.
//   - A watch begins at the current version instead of the given one.
//   - The history was compacted, and a watch from before that does not end with ErrExpired.
//   - Equal returns false for a state that did not change, or true for one that did.
//   - A watch does not end with its context, ends without an error, or continues after one that does not say so.
//   - Two watches share their events.
func Run[T any](t *testing.T, open func(t *testing.T) Subject[T]) {
	for _, c := range Cases[T]() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t)) })
	}
}

// Case is one rule of the contract. Run checks it with an empty source.
type Case[T any] struct {
	Name string
	Run  func(t testing.TB, s Subject[T])
}

// Cases returns the cases of [Run], for a suite that includes them.
func Cases[T any]() []Case[T] {
	var all []Case[T]
	for _, c := range cases[T]() {
		all = append(all, Case[T]{c.name, c.run})
	}
	return all
}

// testCase is one rule of the contract.
type testCase[T any] struct {
	name string
	run  func(t testing.TB, s Subject[T])
}

func cases[T any]() []testCase[T] {
	return slices.Concat(listCases[T](), pageCases[T](), watchCases[T](), overlapCases[T](), equalCases[T](), endCases[T]())
}
