package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// racers is the number of goroutines that write concurrently.
const racers = 32

// race calls write in many goroutines concurrently, and returns their errors.
func race(write func(i int) error) []error {
	errs := make([]error, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() { // ends with the write; race waits for it
			<-start
			errs[i] = write(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// oneWins fails unless one write succeeded and all others were rejected with want. It returns the winner.
func oneWins(t testing.TB, errs []error, want error) int {
	t.Helper()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("writers %d and %d both won", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, want):
			t.Fatalf("writer %d got %q, want %q", i, err, want)
		}
	}
	if winner < 0 {
		t.Fatalf("no writer won")
	}
	return winner
}

var raceCases = []testCase{
	{"of concurrent creates of a key, one wins", func(t testing.TB, db Database) {
		s, ctx := db.open("thing"), patient(t)
		winner := oneWins(t, race(func(i int) error {
			_, err := s.Create(ctx, object{Key: "web", Value: Thing{Size: i + 1}})
			return err
		}), store.ErrExists)
		if got := get(t, s, "web").Value.Size; got != winner+1 {
			t.Fatalf("%d is stored, but writer %d won", got-1, winner)
		}
	}},

	{"of concurrent updates of a version, one wins", func(t testing.TB, db Database) {
		s, ctx := db.open("thing"), patient(t)
		o := create(t, s, "web")
		winner := oneWins(t, race(func(i int) error {
			mine := o
			mine.Value.Size = i + 1
			_, err := s.Update(ctx, mine)
			return err
		}), store.ErrConflict)
		if got := get(t, s, "web").Value.Size; got != winner+1 {
			t.Fatalf("%d is stored, but writer %d won", got-1, winner)
		}
		w := watch(t, ctx, s, o.Version)
		w.sees(informer.Modified, get(t, s, "web"))
		w.sees(informer.Added, create(t, s, "next"))
	}},

	{"of concurrent deletes of a version, one wins", func(t testing.TB, db Database) {
		s, ctx := db.open("thing"), patient(t)
		o := create(t, s, "web")
		oneWins(t, race(func(int) error {
			return errOf(s.Delete(ctx, "web", store.IfVersion(o.Version)))
		}), store.ErrNotFound)
	}},

	{"a counter loses no concurrent update", func(t testing.TB, db Database) {
		s := db.open("thing")
		ctx, step := steady(t)
		create(t, s, "counter")
		const each = 3
		for _, err := range race(func(int) error {
			for raised := 0; raised < each; {
				o, err := s.Get(ctx, "counter")
				if err != nil {
					return err
				}
				o.Value.Size++
				switch _, err = s.Update(ctx, o); {
				case err == nil:
					raised++
					step()
				case !errors.Is(err, store.ErrConflict):
					return err
				}
			}
			return nil
		}) {
			must(t, err)
		}
		if got := get(t, s, "counter").Value.Size; got != racers*each {
			t.Fatalf("%d writers raised the counter %d times each, to %d", racers, each, got)
		}
	}},

	{"a watch yields every write of many writers once and in order", func(t testing.TB, db Database) {
		s, ctx := db.open("thing"), patient(t)
		from := list(t, s).Version
		stored := make([]object, racers)
		for i, err := range race(func(i int) (err error) {
			stored[i], err = s.Create(ctx, object{Key: fmt.Sprintf("%02d", i)})
			return err
		}) {
			if err != nil {
				t.Fatalf("writer %d: %v", i, err)
			}
		}
		w := watch(t, ctx, s, from)
		seen := map[string]bool{}
		for range racers {
			e := w.next() // fails when the order is wrong
			var i int
			_, _ = fmt.Sscanf(e.Object.Key, "%d", &i)
			same(t, "what the watch yields", e.Object, stored[i])
			seen[e.Object.Key] = true
		}
		if len(seen) != racers {
			t.Fatalf("%d writes, but the watch yielded %d", racers, len(seen))
		}
	}},
}
