package informertest

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// Patience is how long the suite waits for an event, or for a watch to end, before it says that it never will.
const Patience = 10 * time.Second

// Subject is a source under test, and what the suite needs to work with it. The source is empty.
type Subject[T any] struct {
	// Source is under test. If it is an [informer.Pager], so are its pages.
	Source informer.ListWatcher[T]

	// Put creates the object of the given name, or changes it, so that its revision is rev. It returns when the change
	// has been made: a list that begins then shows it. It is called by one goroutine at a time, but not always the one
	// of the test.
	Put func(name string, rev int) error

	// Delete deletes the object of the given name, in the same way.
	Delete func(name string) error

	// Read returns the name and the revision of an object.
	Read func(obj T) (name string, rev int)

	// History is the number of changes that the source remembers at least: a watch may start after a version that so
	// many changes have followed. Cases that need more are skipped; the most that one needs is three for each of Objects.
	// Zero is a source that promises nothing.
	History int

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
func Run[T any](t *testing.T, open func(t *testing.T) Subject[T]) {
	for _, c := range cases[T]() {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// testCase is one sentence of the contract.
type testCase[T any] struct {
	name string
	run  func(t testing.TB, s Subject[T])
}

func cases[T any]() []testCase[T] {
	return slices.Concat(listCases[T](), pageCases[T](), watchCases[T](), endCases[T]())
}
