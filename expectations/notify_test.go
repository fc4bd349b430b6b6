package expectations_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/expectations"
)

// listen returns the keys that f was called for so far.
func listen(notify func(f func(key string)) (stop func())) (told *[]string, stop func()) {
	told = new([]string)
	return told, notify(func(key string) { *told = append(*told, key) })
}

func TestListenerIsCalledOnceExpectationsAreMet(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	tr := must(expectations.NewTracked[string, int](expectations.Config[string]{}))
	v := must(expectations.NewVersions(expectations.Config[string]{}))
	for what, test := range map[string]struct {
		of              asker
		expect, on, met func()
	}{
		"CreationObserved": {c, func() { c.ExpectCreations("a", 2) },
			func() { c.CreationObserved("a") }, func() { c.CreationObserved("a") }},
		"LowerExpectations": {c, func() { c.SetExpectations("a", 2, 1) },
			func() { c.LowerExpectations("a", 2, 0) }, func() { c.LowerExpectations("a", 0, 1) }},
		"SetExpectations": {c, func() { c.ExpectDeletions("a", 2) },
			func() { c.SetExpectations("a", 0, 1) }, func() { c.SetExpectations("a", 0, 0) }},
		"DeleteExpectations": {c, func() { c.ExpectDeletions("a", 2) },
			func() { c.DeleteExpectations("b") }, func() { c.DeleteExpectations("a") }},
		"DeletionObserved": {tr, func() { tr.ExpectDeletions("a", 1, 2) },
			func() { tr.DeletionObserved("a", 2) }, func() { tr.DeletionObserved("a", 1) }},
		"End": {tr, func() { tr.Begin("a"); tr.CreationObserved("a", 1) },
			func() { tr.ExpectCreations("a", 1) }, func() { tr.End("a") }},
		"Delete": {tr, func() { tr.ExpectDeletions("a", 1) },
			func() { tr.DeleteExpectations("b") }, func() { tr.DeleteExpectations("a") }},
		"VersionObserved": {v, func() { v.ExpectVersion("a", 10) },
			func() { v.VersionObserved(9) }, func() { v.VersionObserved(10) }},
		"Delete of Versions": {v, func() { v.ExpectVersion("a", 20) },
			func() { v.DeleteExpectations("b") }, func() { v.DeleteExpectations("a") }},
		"Reset": {v, func() { v.ExpectVersion("a", 20) },
			func() { v.VersionObserved(11) }, func() { v.Reset() }},
	} {
		told, stop := listen(test.of.Notify)
		test.expect()
		_, waiting := test.of.Expires("a")
		if !waiting {
			t.Fatalf("%v: waiting is false", what)
		}
		test.on()
		if len(*told) != 0 {
			t.Fatalf("%v: *told = %v, want none", what, *told)
		}
		test.met()
		if want := ([]string{"a"}); !slices.Equal(*told, want) {
			t.Fatalf("%v: *told = %q, want %q", what, *told, want)
		}
		_, waiting = test.of.Expires("a")
		if waiting {
			t.Fatalf("%v: waiting is true", what)
		}
		stop()
	}
}

func TestListenersHearOnlyOfRequestedKeys(t *testing.T) {
	tr := must(expectations.NewTracked[string, int](expectations.Config[string]{}))
	told, _ := listen(tr.Notify)
	for range 2 { // as in a reconcile that has nothing to do: it must not be the reason of the next one
		if !tr.SatisfiedExpectations("a") {
			t.Fatal(`tr.SatisfiedExpectations("a") is false`)
		}
		tr.Begin("a")
		tr.End("a")
	}
	tr.ExpectCreations("a", 1)
	tr.CreationObserved("a", 1)
	if len(*told) != 0 {
		t.Fatalf("*told = %v, want none", *told)
	}
	tr.ExpectCreations("a", 1)
	if tr.SatisfiedExpectations("a") {
		t.Fatal(`tr.SatisfiedExpectations("a") is true`)
	}
	tr.CreationObserved("a", 1)
	tr.ExpectCreations("a", 1)
	tr.CreationObserved("a", 1)
	if want := ([]string{"a"}); !slices.Equal(*told, want) {
		t.Fatalf("once for each wait: *told = %q, want %q", *told, want)
	}
}

func TestExpiryIsReportedOnlyToOnExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired []string
		c := must(expectations.NewCounted(expectations.Config[string]{
			OnExpired: func(key string) { expired = append(expired, key) },
		}))
		told, _ := listen(c.Notify)
		c.ExpectCreations("a", 1)
		at, waiting := c.Expires("a")
		if !waiting {
			t.Fatal("waiting is false")
		}
		time.Sleep(time.Until(at))
		_, waiting = c.Expires("a")
		if waiting {
			t.Fatal("waiting is true")
		}
		c.CreationObserved("a")
		if want := ([]string{"a"}); !slices.Equal(expired, want) {
			t.Fatalf("expired = %q, want %q", expired, want)
		}
		if len(*told) != 0 {
			t.Fatalf("*told = %v, want none", *told)
		}
	})
}

func TestListenersAreCalledInOrderUntilTheyStop(t *testing.T) {
	v := must(expectations.NewVersions(expectations.Config[string]{}))
	var told []string
	stops := make([]func(), 3)
	for i := range stops {
		stops[i] = v.Notify(func(key string) { told = append(told, fmt.Sprint(key, i)) })
	}
	version := uint64(0)
	round := func() []string {
		told = nil
		version += 3
		for i, key := range []string{"c", "b", "a"} {
			v.ExpectVersion(key, version-uint64(i))
			v.Expires(key)
		}
		v.VersionObserved(version)
		return told
	}
	if diff := cmp.Diff([]string{"a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"}, round()); diff != "" {
		t.Fatalf("in order of version: round() mismatch (-want +got):\n%s", diff)
	}
	stops[1]()
	stops[1]()
	if got, want := round(), ([]string{"a0", "a2", "b0", "b2", "c0", "c2"}); !slices.Equal(got, want) {
		t.Fatalf("round() = %q, want %q", got, want)
	}
	stops[0]()
	stops[2]()
	if got := round(); len(got) != 0 {
		t.Fatalf("round() = %v, want none", got)
	}
	if got, want := panicOf(func() { v.Notify(nil) }), "expectations: Notify needs a function"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
}

func TestListenerStoppingDuringCallDoesNotAffectOthers(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	var told []string
	var stop func()
	stop = c.Notify(func(string) { told = append(told, "first"); stop() })
	c.Notify(func(string) { told = append(told, "second") })
	c.Notify(func(string) { told = append(told, "third") })
	for range 2 {
		c.ExpectCreations("a", 1)
		c.Expires("a")
		c.CreationObserved("a")
	}
	if want := ([]string{"first", "second", "third", "second", "third"}); !slices.Equal(told, want) {
		t.Fatalf("told = %q, want %q", told, want)
	}
}

func TestListenerMayCallEveryMethod(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	var told []string
	var stop func()
	stop = c.Notify(func(key string) {
		told = append(told, key)
		_, waiting := c.Expires(key)
		if waiting {
			t.Fatal("waiting is true")
		}
		c.ExpectCreations(key, 1)
		if c.SatisfiedExpectations(key) {
			t.Fatal("c.SatisfiedExpectations(key) is true")
		}
		if len(told) == 3 {
			stop()
		}
		c.CreationObserved(key)
	})
	c.ExpectCreations("a", 1)
	if c.SatisfiedExpectations("a") {
		t.Fatal(`c.SatisfiedExpectations("a") is true`)
	}
	c.CreationObserved("a")
	if want := ([]string{"a", "a", "a"}); !slices.Equal(told, want) {
		t.Fatalf("told = %q, want %q", told, want)
	}
}

// A caller that checks a key, finds it unsatisfied, and then waits for Notify is always woken.
func TestListenerMissesNoConcurrentEvent(t *testing.T) {
	v := must(expectations.NewVersions(expectations.Config[int]{TTL: -1}))
	const keys, rounds = 3, 300
	var wake [keys]chan struct{}
	for key := range wake {
		wake[key] = make(chan struct{}, 1)
	}
	v.Notify(func(key int) {
		select {
		case wake[key] <- struct{}{}:
		default:
		}
	})
	writes := make(chan uint64, keys)
	var holders, cache sync.WaitGroup
	// Sees every write, ends when writes is closed; the test waits for it.
	cache.Go(func() {
		for version := range writes {
			v.VersionObserved(version)
		}
	})
	for key := range keys {
		// Holds its key, ends by itself; the test waits for it.
		holders.Go(func() {
			for i := range rounds {
				version := uint64(i*keys + key + 1)
				v.ExpectVersion(key, version)
				writes <- version
				for !v.SatisfiedExpectations(key) {
					<-wake[key]
				}
			}
		})
	}
	holders.Wait()
	close(writes)
	cache.Wait()
	if err := v.CheckInvariants(); err != nil {
		t.Fatalf("v.CheckInvariants(): %v", err)
	}
}
