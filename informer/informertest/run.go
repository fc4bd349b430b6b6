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
	// Source is the source under test. If it is an [informer.Pager], its pages are tested too, and if it is an [informer.RangeLister], its ranges.
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

	// Together makes two changes, to different names, that have one version: in one transaction, for example. If it is nil, its case is
	// skipped. Set it if two changes of the source can have one version.
	Together func(first, second Change) error

	// Spoil makes the object with the given name one that exists and cannot be read, until Put or Delete. The object may not have existed
	// before. If Spoil is nil, its cases are skipped. Set it unless everything that the source holds can be read: a source that takes such an
	// object for a deleted one makes controllers delete what belongs to it.
	Spoil func(name string) error

	// Vanish deletes the object with the given name in a way of which the source reports no event, as a record does that expires. If it is
	// nil, its cases are skipped. Set it if an object of the source can disappear like that.
	Vanish func(name string) error

	// Restart begins a new history, in which numbers of earlier versions may appear again: the source is restored from a backup, or is
	// deleted and created again. It then holds what it held at the backup, or nothing. If Restart is nil, its cases are skipped. Set it
	// unless versions outlive whatever happens to the source. See [informer.ErrNewHistory].
	Restart func() error

	// Read returns the name and the revision of an object.
	Read func(obj T) (name string, rev int)

	// History is the minimum number of changes that the source remembers: a watch may start after a version that this many changes have
	// followed. Cases that need more are skipped; none needs more than ten, or than three for each of Objects. Zero promises nothing.
	History int

	// Merges means that a watch may skip a state of an object that a later change has replaced. A source that keeps only the last state
	// of each object does so. The watch must not skip the last state, nor the deletion of an object that a consumer has seen and that
	// is gone. Such a source need not know which objects exist: it may yield a creation as Modified, and a deletion with KeyOnly, also of an
	// object that the consumer has not seen.
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
//   - An event comes before its change is visible to a list, as from a log that is written before the commit.
//   - A bookmark or the version of a list is ahead of a change that has yet to appear.
//   - A list is older or newer than its version, its pages have two versions, or an object is on two pages.
//   - An object is in no range of hashes, or in two.
//   - The latest version that the source tells lacks a change, or no watch reaches it.
//   - A deletion is not reported, or does not carry the last state of the object.
//   - An object that cannot be read looks deleted, or ends the list or the watch. Run finds this only if Subject.Spoil is set.
//   - An object that expires stays in every cache. Run finds this only if Subject.Vanish is set.
//   - After a restore, a watch goes on from a version of before. Run finds this only if Subject.Restart is set.
//   - An event is yielded twice, out of order, or with the wrong type.
//   - A watch begins at the current version instead of the given one.
//   - The history was compacted, and a watch from before that does not end with ErrExpired.
//   - Equal returns false for a state that did not change, or true for one that did.
//   - A watch does not end with its context, ends without an error, or continues after one that does not say so.
//   - Two watches share their events, or one that is not read holds up the others, a list, or a writer.
//   - A second loop over a watch goes on where the first one has ended.
//   - The slice of a list, or the object of an event, is used again for a later one.
//   - Two changes that commit together have one version, so a consumer that resumes between them misses the second.
//   - A consumer that is slow, or is overtaken by a compaction, silently misses changes, or holds up writers.
//   - A watch loses changes if hundreds of objects change at once.
//   - A list whose context ends is cut, or lacks objects while others change.
//   - A promised bookmark does not come, or the end of a context says that the watch has expired.
//   - A watch leaves a goroutine behind, or a call whose context has ended spoils the next ones.
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
	return slices.Concat(listCases[T](), pageCases[T](), rangeCases[T](), watchCases[T](), overlapCases[T](), unreadCases[T](), vanishCases[T](), restartCases[T](), equalCases[T](), endCases[T](), slowCases[T]())
}
