package informertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// A source keeps its contract while another source on the same clock changes before and after each of its changes.
func TestSourceOnSharedClockKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
		var clock informertest.Clock
		noise := informertest.NewSourceOn(&clock, func(n int) int { return n % 3 })
		src := informertest.NewSourceOn(&clock, func(p pair) string { return p.name })
		s := subject(src, src)
		put, remove := s.Put, s.Delete
		s.Put = func(name string, rev int) error {
			defer noise.Delete(rev % 3)
			noise.Put(rev)
			return put(name, rev)
		}
		s.Delete = func(name string) error {
			defer noise.Bookmark()
			noise.Put(1)
			return remove(name)
		}
		return s
	})
}

func TestInformerReachesVersionOfOtherSourceOnSharedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock informertest.Clock
		sites := informertest.NewSourceOn(&clock, func(p pair) string { return p.name })
		numbers := informertest.NewSourceOn(&clock, func(n int) int { return n / 10 })
		ctx, cancel := context.WithCancel(t.Context())
		seenSites, seenNumbers := must(informer.New(sites, sites.Key, informer.Config{})), must(informer.New(numbers, numbers.Key, informer.Config{}))
		ended := make(chan error, 2)
		go func() { ended <- seenSites.Run(ctx) }()   // ends with cancel; waited for below
		go func() { ended <- seenNumbers.Run(ctx) }() // likewise
		synctest.Wait()

		r, last := rand.New(rand.NewPCG(5, 6)), informer.Version(0)
		for n := range 200 {
			var v informer.Version
			switch r.IntN(4) {
			case 0, 1:
				v = sites.Put(pair{fmt.Sprint("s", r.IntN(4)), strconv.Itoa(n)})
			case 2:
				v = numbers.Put(n)
			default:
				v = numbers.Bookmark()
			}
			if want := last + 1; v != want {
				t.Fatalf("one sequence, without gaps: v = %v, want %v", v, want)
			}
			last = v
			if got, want := ([]informer.Version{clock.Version(), sites.Version(), numbers.Version()}), ([]informer.Version{v, v, v}); !slices.Equal(got, want) {
				t.Fatalf("[]informer.Version{clock.Version(), sites.Version(), numbers.Version()} = %v, want %v", got, want)
			}
			l, err := sites.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if l.Version != v {
				t.Fatalf("a list is current at the version of the clock: l.Version = %v, want %v", l.Version, v)
			}
		}
		synctest.Wait()
		if got := seenSites.Version(); got != last {
			t.Errorf("seenSites.Version() = %v, want %v", got, last)
		}
		if got := seenNumbers.Version(); got != last {
			t.Errorf("seenNumbers.Version() = %v, want %v", got, last)
		}
		if got := numbers.Delete(77); got != last {
			t.Errorf("deleting a missing object is not a change: numbers.Delete(77) = %v, want %v", got, last)
		}

		sites.Hold()
		last = numbers.Put(1)
		synctest.Wait()
		if got, want := seenSites.Version(), last-1; got != want {
			t.Errorf("a lagging source does not pass the changes of others either: seenSites.Version() = %v, want %v", got, want)
		}
		if got := seenNumbers.Version(); got != last {
			t.Errorf("seenNumbers.Version() = %v, want %v", got, last)
		}
		sites.Release()
		synctest.Wait()
		if got := seenSites.Version(); got != last {
			t.Errorf("seenSites.Version() = %v, want %v", got, last)
		}
		cancel()
		<-ended
		<-ended
	})
}

func TestSourceMayJoinRunningClock(t *testing.T) {
	var clock informertest.Clock
	old := informertest.NewSourceOn(&clock, func(n int) int { return n })
	old.Put(1)
	src := informertest.NewSourceOn(&clock, func(n int) int { return n })
	if got := src.Version(); got != 1 {
		t.Errorf("src.Version() = %v, want 1", got)
	}
	if got := src.Put(7); got != 2 {
		t.Errorf("src.Put(7) = %v, want 2", got)
	}
	for _, after := range []informer.Version{0, 1} {
		for e, err := range src.Watch(t.Context(), after) {
			if err != nil {
				t.Fatal(err)
			}
			if want := (informer.Event[int]{Type: informer.Added, Object: 7, Version: 2}); e != want {
				t.Errorf("e = %+v, want %+v", e, want)
			}
			break
		}
	}
	const misuse = "informertest: NewSourceOn needs a clock and a key function"
	if got := panicOf(func() { informertest.NewSourceOn[int, int](nil, func(n int) int { return n }) }); got != misuse {
		t.Errorf("panic = %v, want %v", got, misuse)
	}
	if got := panicOf(func() { informertest.NewSourceOn[int, int](&clock, nil) }); got != misuse {
		t.Errorf("panic = %v, want %v", got, misuse)
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
