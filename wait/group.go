package wait

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Group runs functions concurrently and waits for them. Unlike a sync.WaitGroup, it returns their errors and panics from Wait.
// Unlike an errgroup, it does not cancel the other functions when one fails.
//
// The zero value is ready for use. A Group must not be copied after first use. Several goroutines may call its methods
// concurrently, except for Start and Wait while none of its functions runs.
type Group struct {
	wg      sync.WaitGroup
	started atomic.Int64 // functions so far: the place of the next one among the errors
	failed  failures
}

// Start runs f(ctx) in a goroutine of its own, even if ctx has ended.
func (g *Group) Start(ctx context.Context, f func(context.Context) error) {
	place := int(g.started.Add(1))

	// Runs f for the caller. It ends when f returns; Wait waits for it.
	g.wg.Go(func() {
		err := errGoexit
		defer func() { g.failed.add(place, err) }() // even if f ends the goroutine
		err = Call(ctx, f)
	})
}

// Wait waits until every function has returned. It returns their errors, joined in the order of Start, or nil. A function that
// calls runtime.Goexit has failed too. Wait may be called again, and then returns the same errors and those of later functions.
func (g *Group) Wait() error {
	g.wg.Wait()
	return g.failed.join()
}

// failures collects errors and remembers where each belongs. It is safe for concurrent use.
type failures struct {
	mu sync.Mutex
	// mu guards the following.
	all []failure
}

type failure struct {
	place int
	err   error
}

// add remembers err, unless it is nil, for its place.
func (f *failures) add(place int, err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, failure{place, err})
}

// join returns the errors, joined in the order of their places, or nil.
func (f *failures) join() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortStableFunc(f.all, func(a, b failure) int { return cmp.Compare(a.place, b.place) })
	errs := make([]error, 0, len(f.all))
	for _, failure := range f.all {
		errs = append(errs, failure.err)
	}
	return errors.Join(errs...)
}
