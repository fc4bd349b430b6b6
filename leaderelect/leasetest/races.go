package leasetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
)

var raceCases = []testCase{
	{"of concurrent creates one succeeds", func(t testing.TB, b Backend) {
		s := b.Store
		other := b.reopen()
		winner := race(t, 32, func(i int) (leaderelect.Entry, error) {
			h := s
			if i%2 == 1 {
				h = other
			}
			return h.Create(context.Background(), entry(strconv.Itoa(i)))
		})
		reaches(t, s, winner)
	}},

	{"of concurrent updates of a version one succeeds", func(t testing.TB, b Backend) {
		s := b.Store
		have := create(t, s, entry("a"))
		other := b.reopen()
		winner := race(t, 32, func(i int) (leaderelect.Entry, error) {
			h := s
			if i%2 == 1 {
				h = other
			}
			e := have
			e.Value = []byte(strconv.Itoa(i))
			return h.Update(context.Background(), e)
		})
		reaches(t, s, winner)
	}},

	{"no update is lost", func(t testing.TB, b Backend) {
		s := b.Store
		const workers, each = 8, 10
		create(t, s, entry("0"))
		handles := []leaderelect.LeaseStore{s, b.reopen()}
		errs := make([]error, workers)
		var all sync.WaitGroup
		for w := range workers {
			// These goroutines compete. Each ends after its share of updates; the Wait below waits for them.
			all.Go(func() {
				for range each {
					if errs[w] == nil {
						errs[w] = increment(handles[w%2])
					}
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("incrementing a counter: %v", err)
		}
		want := strconv.Itoa(workers * each)
		eventually(t, "Get of a counter after "+want+" acknowledged updates", func(ctx context.Context) error {
			e, err := s.Get(ctx, key) // which may be stale
			if err == nil && string(e.Value) != want {
				err = fmt.Errorf("it is at %s", e.Value)
			}
			return err
		})
	}},

	{"concurrent writes of different keys do not undo each other", func(t testing.TB, b Backend) {
		const each = 16
		handles := []leaderelect.LeaseStore{b.Store, b.reopen()}
		have := make([]leaderelect.Entry, 2*each)
		for i := range each {
			have[i] = create(t, b.Store, leaderelect.Entry{Key: "old " + strconv.Itoa(i), Term: 1})
		}
		errs := make([]error, 2*each)
		start := make(chan struct{})
		var all sync.WaitGroup
		for i := range 2 * each {
			// These goroutines compete: half of them update a record each, and half create one. Each ends after one call; the Wait
			// below waits for them.
			all.Go(func() {
				<-start
				s := handles[i/2%2]
				if i < each {
					next := have[i]
					next.Value = []byte("again")
					have[i], errs[i] = s.Update(context.Background(), next)
				} else {
					have[i], errs[i] = s.Create(context.Background(), leaderelect.Entry{Key: "new " + strconv.Itoa(i), Term: 1})
				}
			})
		}
		close(start)
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("a write beside those of other keys: %v", err)
		}
		for _, e := range have {
			reaches(t, b.Store, e)
		}
	}},

	{"a handle does not lose its reads", func(t testing.TB, b Backend) {
		const last = 30
		have := create(t, b.Store, entry("0"))
		failed := make(chan error, 1)
		other := b.reopen()
		// This goroutine writes while the case reads. It ends with the last number; the case receives its result.
		go func() {
			var err error
			for i := 0; i < last && err == nil; i++ {
				err = increment(other)
			}
			failed <- err
		}()
		at, version, written := 0, have.Version, false
		for !written {
			select {
			case err := <-failed:
				if err != nil {
					t.Fatalf("incrementing a counter: %v", err)
				}
				written = true
			default:
			}
			e, err := b.Store.Get(context.Background(), key)
			n, malformed := strconv.Atoi(string(e.Value))
			if err != nil || malformed != nil || n < at || n == at && e.Version != version {
				t.Errorf("Get returns %q in version %q (error %v) after %d in version %q", e.Value, e.Version, err, at, version)
			}
			at, version = n, e.Version
		}
	}},
}

// race calls f(0) to f(n-1) at once. It requires that one of them succeeds and the others return ErrConflict, and returns the result of the
// one.
func race(t testing.TB, n int, f func(int) (leaderelect.Entry, error)) leaderelect.Entry {
	t.Helper()
	entries, errs := make([]leaderelect.Entry, n), make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		// These goroutines are the race. Each ends after one call; the Wait below waits for them.
		all.Go(func() {
			<-start
			entries[i], errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()

	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("two calls succeed, want one")
		case err == nil:
			winner = i
		default:
			conflict(t, "a call that came late", err)
		}
	}
	if winner < 0 {
		t.Fatalf("no call succeeds")
	}
	return entries[winner]
}

// increment adds 1 to the number in the record.
func increment(s leaderelect.LeaseStore) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		e, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(e.Value))
		if err != nil {
			return err
		}
		e.Value = []byte(strconv.Itoa(n + 1))
		if _, err = s.Update(ctx, e); !errors.Is(err, leaderelect.ErrConflict) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w, for %v", err, Patience)
		}
	}
}
