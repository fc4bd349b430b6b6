package expectations_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/setpoint-go/setpoint/expectations"
)

func TestExpectationsExpireExactlyAtTTL(t *testing.T) {
	for what, test := range map[string]struct{ cfg, want time.Duration }{
		"the default": {0, 5 * time.Minute},
		"one minute":  {time.Minute, time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var expired []string
				c := must(expectations.NewCounted(expectations.Config[string]{
					TTL:       test.cfg,
					OnExpired: func(key string) { expired = append(expired, key) },
				}))
				c.ExpectCreations("a", 1)
				at, waits := c.Expires("a")
				if !waits {
					t.Fatal("waits is false")
				}
				if want := time.Now().Add(test.want); !at.Equal(want) {
					t.Fatalf("at = %v, want %v", at, want)
				}
				time.Sleep(test.want - 1)
				if c.SatisfiedExpectations("a") {
					t.Fatal(`c.SatisfiedExpectations("a") is true`)
				}
				if len(expired) != 0 {
					t.Fatalf("expired = %v, want none", expired)
				}
				time.Sleep(time.Nanosecond)
				if !c.SatisfiedExpectations("a") {
					t.Fatal(`c.SatisfiedExpectations("a") is false`)
				}
				if !c.SatisfiedExpectations("a") {
					t.Fatal(`c.SatisfiedExpectations("a") is false`)
				}
				if want := ([]string{"a"}); !slices.Equal(expired, want) {
					t.Fatalf("once: expired = %q, want %q", expired, want)
				}
			})
		})
	}
}

func TestNegativeTTLDisablesExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := must(expectations.NewVersions(expectations.Config[string]{TTL: -1}))
		v.ExpectVersion("a", 5)
		time.Sleep(1000 * time.Hour)
		v.VersionObserved(4)
		if v.SatisfiedExpectations("a") {
			t.Fatal(`v.SatisfiedExpectations("a") is true`)
		}
		at, waits := v.Expires("a")
		if !waits {
			t.Fatal("waits is false")
		}
		if !at.IsZero() {
			t.Fatalf("at = %v, want the zero time", at)
		}
		if err := v.CheckInvariants(); err != nil {
			t.Fatalf("v.CheckInvariants(): %v", err)
		}
	})
}

func TestAnyCallReportsExpiredKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired []string
		cfg := expectations.Config[string]{OnExpired: func(key string) { expired = append(expired, key) }}
		c := must(expectations.NewCounted(cfg))
		calls := map[string]func(){
			"SatisfiedExpectations": func() { c.SatisfiedExpectations("other") },
			"Expires":               func() { c.Expires("other") },
			"ExpectCreations":       func() { c.ExpectCreations("other", 1) },
			"SetExpectations":       func() { c.SetExpectations("other", 0, 0) },
			"LowerExpectations":     func() { c.LowerExpectations("other", 1, 1) },
			"DeleteExpectations":    func() { c.DeleteExpectations("other") },
			"the same key again":    func() { c.ExpectCreations("b", 1) },
		}
		for what, call := range calls {
			c.DeleteExpectations("other")
			c.DeleteExpectations("b")
			expired = nil
			c.ExpectCreations("b", 1)
			c.ExpectCreations("a", 1)
			time.Sleep(time.Hour)
			call()
			if want := ([]string{"b", "a"}); !slices.Equal(expired, want) {
				t.Fatalf("%s: in the order in which they were set: expired = %q, want %q", what, expired, want)
			}
		}
	})
}

func TestOnExpiredMayCallEveryMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr *expectations.Tracked[string, int]
		tr = must(expectations.NewTracked[string, int](expectations.Config[string]{
			OnExpired: func(key string) { tr.ExpectDeletions(key, 7) },
		}))
		tr.ExpectCreations("a", 1)
		time.Sleep(time.Hour)
		if !tr.SatisfiedExpectations("a") {
			t.Fatal(`tr.SatisfiedExpectations("a") is false`)
		}
		if tr.SatisfiedExpectations("a") {
			t.Fatal(`tr.SatisfiedExpectations("a") is true`)
		}
	})
}

func TestExpiryWithoutOnExpiredIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		v := must(expectations.NewVersions(expectations.Config[string]{
			Name:   "sites",
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		v.ExpectVersion("a", 5)
		v.ExpectVersion("b", 6)
		time.Sleep(time.Hour)
		v.VersionObserved(5)
		if got, want := log.String(), `level=WARN msg="expectations expired" name=sites key=b`; !strings.Contains(got, want) {
			t.Fatalf("log.String() = %q, want it to contain %q", got, want)
		}
		if got := log.String(); strings.Contains(got, "key=a") {
			t.Fatalf("it was met, but late: log.String() = %q, want it not to contain %q", got, "key=a")
		}
	})
}

func TestUnexpectedEventIsNotCounted(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	c.CreationObserved("a")
	c.ExpectCreations("a", 1)
	c.DeletionObserved("a")
	if c.SatisfiedExpectations("a") {
		t.Fatal(`neither too early nor of the other kind: c.SatisfiedExpectations("a") is true`)
	}
	c.CreationObserved("a")
	c.CreationObserved("a")
	c.ExpectCreations("a", 1)
	if c.SatisfiedExpectations("a") {
		t.Fatal(`a count is never negative: c.SatisfiedExpectations("a") is true`)
	}

	tr := must(expectations.NewTracked[string, string](expectations.Config[string]{}))
	tr.ExpectDeletions("a", "x", "y")
	tr.DeletionObserved("a", "x")
	tr.DeletionObserved("a", "x")
	tr.DeletionObserved("a", "z")
	tr.CreationObserved("a", "y")
	if tr.SatisfiedExpectations("a") {
		t.Fatal(`twice, another child, another kind: tr.SatisfiedExpectations("a") is true`)
	}
	tr.DeletionObserved("a", "y")
	if !tr.SatisfiedExpectations("a") {
		t.Fatal(`tr.SatisfiedExpectations("a") is false`)
	}
}

func TestHugeCountsDoNotOverflow(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	c.SetExpectations("a", math.MaxInt, 1)
	c.ExpectCreations("a", math.MaxInt)
	c.RaiseExpectations("a", 1, math.MaxInt)
	c.CreationObserved("a")
	c.DeletionObserved("a")
	if c.SatisfiedExpectations("a") {
		t.Fatal(`c.SatisfiedExpectations("a") is true`)
	}
	c.LowerExpectations("a", math.MaxInt, math.MaxInt)
	if !c.SatisfiedExpectations("a") {
		t.Fatal(`c.SatisfiedExpectations("a") is false`)
	}
}

func TestRaiseDoesNotExtendTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := must(expectations.NewCounted(expectations.Config[string]{TTL: time.Minute, OnExpired: func(string) {}}))
		c.ExpectCreations("a", 1)
		time.Sleep(time.Minute / 2)
		c.RaiseExpectations("a", 1, 0)
		time.Sleep(time.Minute / 2)
		if !c.SatisfiedExpectations("a") {
			t.Fatal(`c.SatisfiedExpectations("a") is false`)
		}
		c.RaiseExpectations("a", 1, 0)
		if c.SatisfiedExpectations("a") {
			t.Fatal(`and starts from no expectations: c.SatisfiedExpectations("a") is true`)
		}
	})
}

func TestDeadKeysTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := expectations.Config[int]{OnExpired: func(int) {}}
		c, tr, v := must(expectations.NewCounted(cfg)), must(expectations.NewTracked[int, int](cfg)), must(expectations.NewVersions(cfg))
		for key := range 1000 {
			c.ExpectDeletions(key, 1)
			tr.ExpectCreations(key, 1)
			v.ExpectVersion(key, 5)
		}
		if got, want := ([]int{c.Len(), tr.Len(), v.Len()}), ([]int{1000, 1000, 1000}); !slices.Equal(got, want) {
			t.Fatalf("c.Len(), tr.Len(), v.Len() = %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		c.SatisfiedExpectations(-1)
		tr.SatisfiedExpectations(-1)
		v.SatisfiedExpectations(-1)
		if got, want := ([]int{c.Len(), c.Room(), tr.Len(), v.Len(), v.Room()}), ([]int{0, 0, 0, 0, 0}); !slices.Equal(got, want) {
			t.Fatalf("c.Len(), c.Room(), tr.Len(), v.Len(), v.Room() = %v, want %v", got, want)
		}

		for key := range 10 {
			c.ExpectDeletions(key, 1)
			c.DeletionObserved(key)
			tr.ExpectCreations(key, 1)
			tr.CreationObserved(key, 1)
			v.ExpectVersion(key, 5)
			v.DeleteExpectations(key)
		}
		if got, want := ([]int{c.Len(), tr.Len(), v.Len()}), ([]int{0, 0, 0}); !slices.Equal(got, want) {
			t.Fatalf("c.Len(), tr.Len(), v.Len() = %v, want %v", got, want)
		}
	})
}

func TestInvalidCountsAndKeysPanic(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[float64]{}))
	const negative = "expectations: a number of expected events is negative"
	for what, call := range map[string]func(){
		"ExpectCreations":   func() { c.ExpectCreations(1, -1) },
		"ExpectDeletions":   func() { c.ExpectDeletions(1, -1) },
		"SetExpectations":   func() { c.SetExpectations(1, 0, -1) },
		"RaiseExpectations": func() { c.RaiseExpectations(1, 2, -1) },
		"LowerExpectations": func() { c.LowerExpectations(1, -2, 1) },
	} {
		if got := panicOf(call); got != negative {
			t.Fatalf("%v: panic = %v, want %v", what, got, negative)
		}
	}
	if got, want := panicOf(func() { c.ExpectCreations(math.NaN(), 1) }), "expectations: a key is not equal to itself"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
	if !c.SatisfiedExpectations(1) {
		t.Fatal("no lock is still held: c.SatisfiedExpectations(1) is false")
	}
}

func TestConcurrentUse(t *testing.T) {
	cfg := expectations.Config[string]{OnExpired: func(string) {}, TTL: time.Microsecond}
	c, tr, v := must(expectations.NewCounted(cfg)), must(expectations.NewTracked[string, int](cfg)), must(expectations.NewVersions(cfg))
	var wg sync.WaitGroup
	for g := range 4 {
		// Uses everything, ends by itself; the test waits for it.
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprint((g + i) % 5)
				c.ExpectCreations(key, 1)
				tr.ExpectDeletions(key, i)
				v.ExpectVersion(key, uint64(i))
				c.SatisfiedExpectations(key)
				tr.SatisfiedExpectations(key)
				v.SatisfiedExpectations(key)
				v.VersionObserved(uint64(i / 2))
				c.CreationObserved(key)
				tr.DeletionObserved(key, i)
				c.Expires(key)
				c.DeleteExpectations(key)
				tr.DeleteExpectations(key)
				v.DeleteExpectations(key)
			}
		})
	}
	wg.Wait()
	if err := c.CheckInvariants(); err != nil {
		t.Fatalf("c.CheckInvariants(): %v", err)
	}
	if err := tr.CheckInvariants(); err != nil {
		t.Fatalf("tr.CheckInvariants(): %v", err)
	}
	if err := v.CheckInvariants(); err != nil {
		t.Fatalf("v.CheckInvariants(): %v", err)
	}
}

func TestSecondBeginDiscardsEarlierObservations(t *testing.T) {
	tr := must(expectations.NewTracked[string, int](expectations.Config[string]{}))
	tr.Begin("a")
	tr.CreationObserved("a", 1)
	tr.Begin("a")
	tr.ExpectCreations("a", 1)
	tr.End("a")
	if tr.SatisfiedExpectations("a") {
		t.Fatal(`tr.SatisfiedExpectations("a") is true`)
	}
}

func TestEndDiscardsObservations(t *testing.T) {
	tr := must(expectations.NewTracked[string, int](expectations.Config[string]{}))
	tr.Begin("a")
	tr.CreationObserved("a", 1)
	tr.ExpectCreations("a", 2)
	tr.End("a")

	tr.ExpectCreations("a", 1) // another object under the same name
	tr.CreationObserved("a", 2)
	if tr.SatisfiedExpectations("a") {
		t.Fatal(`the first object is mistaken for the second: tr.SatisfiedExpectations("a") is true`)
	}
	tr.CreationObserved("a", 1)
	if !tr.SatisfiedExpectations("a") {
		t.Fatal(`tr.SatisfiedExpectations("a") is false`)
	}
}

func TestSettledKeyIsNotKeptAlive(t *testing.T) {
	v := must(expectations.NewVersions(expectations.Config[*[64]byte]{}))
	waits, gone := new([64]byte), new([64]byte)
	v.ExpectVersion(waits, 1)
	v.ExpectVersion(gone, 2)
	v.DeleteExpectations(gone)
	collected := weak.Make(gone)
	gone = nil
	runtime.GC()
	if got := collected.Value(); got != nil {
		t.Fatalf("collected.Value() = %v, want nil", got)
	}
	if v.SatisfiedExpectations(waits) {
		t.Fatal("v.SatisfiedExpectations(waits) is true")
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
