package events_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

func TestFloodAboutOneObjectDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []events.Event
		r := must(events.NewRecorder(events.Config{Burst: 3, Sink: func(e events.Event) { told = append(told, e) }}))
		r.Normal(shop, "Before", "")
		for n := range 1000 {
			r.Warning(web, "Broken", fmt.Sprint("attempt ", n))
		}
		r.Normal(shop, "After", "")
		want := []string{
			"shop Normal Before  x1", "web Warning Broken attempt 0 x1", "web Warning Broken attempt 1 x1",
			"web Warning Broken attempt 2 x1", "shop Normal After  x1",
		}
		if diff := cmp.Diff(want, brief(r.Events())); diff != "" {
			t.Errorf("brief(r.Events()) mismatch (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, brief(told)); diff != "" {
			t.Errorf("brief(told) mismatch (-want +got):\n%s", diff)
		}
		if got, want := r.Stats(), (events.Stats{Recorded: 5, Limited: 997, Held: 5, Objects: 2}); got != want {
			t.Errorf("r.Stats() = %+v, want %+v", got, want)
		}
		if err := r.CheckInvariants(); err != nil {
			t.Fatalf("r.CheckInvariants(): %v", err)
		}
	})
}

func TestBucketRefillsOneTokenUpToBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{Burst: 2, Refill: time.Second}))
		n := 0
		admitted := func() bool {
			n++
			before := r.Stats().Recorded
			r.Normal(web, "N", fmt.Sprint(n))
			return r.Stats().Recorded > before
		}
		if got, want := ([]bool{admitted(), admitted(), admitted()}), ([]bool{true, true, false}); !slices.Equal(got, want) {
			t.Errorf("[]bool{admitted(), admitted(), admitted()} = %v, want %v", got, want)
		}
		time.Sleep(time.Second - 1)
		if admitted() {
			t.Error("a nanosecond early: admitted() is true")
		}
		time.Sleep(time.Nanosecond)
		if got, want := ([]bool{admitted(), admitted()}), ([]bool{true, false}); !slices.Equal(got, want) {
			t.Errorf("[]bool{admitted(), admitted()} = %v, want %v", got, want)
		}
		time.Sleep(1500 * time.Millisecond)
		if got, want := ([]bool{admitted(), admitted()}), ([]bool{true, false}); !slices.Equal(got, want) {
			t.Errorf("half a token stays: []bool{admitted(), admitted()} = %v, want %v", got, want)
		}
		time.Sleep(500 * time.Millisecond)
		if got, want := ([]bool{admitted(), admitted()}), ([]bool{true, false}); !slices.Equal(got, want) {
			t.Errorf("and becomes one: []bool{admitted(), admitted()} = %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		if got, want := ([]bool{admitted(), admitted(), admitted()}), ([]bool{true, true, false}); !slices.Equal(got, want) {
			t.Errorf("no more than the burst: []bool{admitted(), admitted(), admitted()} = %v, want %v", got, want)
		}
	})
}

func TestFloodOfRepeatsIsCountedAndTakesNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []events.Event
		r := must(events.NewRecorder(events.Config{Burst: 2, Refill: time.Minute, Sink: func(e events.Event) { told = append(told, e) }}))
		for range 100 {
			r.Warning(web, "Broken", "")
		}
		r.Normal(web, "Mended", "")
		if diff := cmp.Diff([]string{
			"web Warning Broken  x1", "web Warning Broken  x2", "web Warning Broken  x3", "web Normal Mended  x1",
		}, brief(told)); diff != "" {
			t.Errorf("one is new, two are repeats within the limit: brief(told) mismatch (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"web Warning Broken  x100", "web Normal Mended  x1"}, brief(r.Events())); diff != "" {
			t.Errorf("brief(r.Events()) mismatch (-want +got):\n%s", diff)
		}
		if got, want := r.Stats(), (events.Stats{Recorded: 101, Untold: 97, Held: 2, Objects: 1}); got != want {
			t.Errorf("r.Stats() = %+v, want %+v", got, want)
		}
		time.Sleep(time.Minute)
		r.Warning(web, "Broken", "")
		if got := told[len(told)-1].Count; got != 101 {
			t.Errorf("the next delivery has the full count: told[len(told)-1].Count = %v, want 101", got)
		}
	})
}

func TestQuietObjectsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{Burst: 2, Refill: time.Second, Objects: 50}))
		about := func(n int) store.Ref { return store.Ref{Kind: "pod", Key: fmt.Sprint(n)} }
		for n := range 1000 {
			r.Normal(about(n), "Started", "")
			if got := r.Stats().Objects; got > 50 {
				t.Fatalf("r.Stats().Objects = %v, want at most 50", got)
			}
		}
		if err := r.CheckInvariants(); err != nil {
			t.Fatalf("r.CheckInvariants(): %v", err)
		}
		time.Sleep(2 * time.Second) // all buckets are full
		for n := range 60 {
			r.Normal(web, "N", fmt.Sprint(n))
		}
		if got := r.Stats().Objects; got != 1 {
			t.Errorf("r.Stats().Objects = %v, want 1", got)
		}
		if err := r.CheckInvariants(); err != nil {
			t.Fatalf("r.CheckInvariants(): %v", err)
		}
	})
}

func TestFloodingObjectStaysLimitedAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{Burst: 2, Objects: 3}))
		for n := range 100 {
			r.Normal(web, "N", fmt.Sprint(n)) // a dropped event counts as a use
			r.Normal(store.Ref{Kind: "pod", Key: fmt.Sprint(n)}, "Started", "")
		}
		if got := r.EventsFor(web); len(got) != 2 {
			t.Errorf("len(r.EventsFor(web)) = %d, want 2: %v", len(got), got)
		}
		if got := r.Stats().Limited; got != 98 {
			t.Errorf("r.Stats().Limited = %v, want 98", got)
		}
	})
}

func TestNegativeOrHugeBurstAndRefillDisableLimit(t *testing.T) {
	for _, cfg := range []events.Config{
		{Burst: -1}, {Refill: -1}, {Burst: math.MinInt, Refill: time.Hour}, {Burst: math.MaxInt32, Refill: math.MaxInt64},
	} {
		r := must(events.NewRecorder(cfg))
		for n := range 100 {
			r.Normal(web, "N", fmt.Sprint(n))
		}
		if got := r.Events(); len(got) != 100 {
			t.Errorf("%v: len(r.Events()) = %d, want 100: %v", cfg, len(got), got)
		}
		if err := r.CheckInvariants(); err != nil {
			t.Fatalf("r.CheckInvariants(): %v", err)
		}
	}
}

func TestBurstIsLimitedWithAnyRefill(t *testing.T) {
	for _, refill := range []time.Duration{math.MaxInt64, math.MaxInt64/3 + 1, math.MaxInt64 / 3, 100 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := must(events.NewRecorder(events.Config{Burst: 3, Refill: refill}))
			for n := range 100 {
				r.Normal(web, "N", fmt.Sprint(n))
			}
			if got := r.Events(); len(got) != 3 {
				t.Errorf("%v: len(r.Events()) = %d, want 3: %v", refill, len(got), got)
			}
			time.Sleep(365 * 24 * time.Hour)
			r.Normal(web, "N", "a year later")
			if got := r.Events(); len(got) != 3 {
				t.Errorf("%v: len(r.Events()) = %d, want 3: %v", refill, len(got), got)
			}
			if err := r.CheckInvariants(); err != nil {
				t.Fatalf("r.CheckInvariants(): %v", err)
			}
		})
	}
}

func TestDefaultLimitIs25EventsAndOnePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{}))
		flood := func() int {
			before := r.Stats().Recorded
			for n := range 100 {
				r.Normal(web, "N", fmt.Sprint(before, n))
			}
			return int(r.Stats().Recorded - before)
		}
		if got := flood(); got != 25 {
			t.Errorf("flood() = %v, want 25", got)
		}
		time.Sleep(5 * time.Minute)
		if got := flood(); got != 5 {
			t.Errorf("flood() = %v, want 5", got)
		}
		time.Sleep(24 * time.Hour)
		if got := flood(); got != 25 {
			t.Errorf("flood() = %v, want 25", got)
		}
	})
}

func TestLongMessageIsCutBetweenRunes(t *testing.T) {
	for message, want := range map[string]string{
		strings.Repeat("a", 1024):               strings.Repeat("a", 1024),
		strings.Repeat("a", 1025):               strings.Repeat("a", 1021) + "...",
		strings.Repeat("a", 1020) + "ééé":       strings.Repeat("a", 1020) + "...",
		strings.Repeat("\x80", 2000):            strings.Repeat("\x80", 1017) + "...",
		strings.Repeat("a", 1018) + "𝄞" + "abc": strings.Repeat("a", 1018) + "...",
	} {
		r := must(events.NewRecorder(events.Config{}))
		r.Normal(web, "N", message)
		r.Normal(web, "N", message+"!")
		got := r.Events()[0].Message
		if got != want {
			t.Errorf("got = %q, want %q", got, want)
		}
		if got, want := utf8.ValidString(got), utf8.ValidString(message); got != want {
			t.Errorf("utf8.ValidString(got) = %v, want %v", got, want)
		}
	}
}

// The model is a simple token bucket that counts nanoseconds of refill.
func TestLimitsMatchTokenBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type bucket struct {
			tokens int // in nanoseconds of refill
			at     time.Time
		}
		for seed := range uint64(5) {
			random := rand.New(rand.NewPCG(seed, 1))
			burst, refill := 1+random.IntN(4), time.Duration(1+random.IntN(20))
			var told events.Event
			r := must(events.NewRecorder(events.Config{
				Size: 4, Burst: burst, Refill: refill, Sink: func(e events.Event) { told = e },
			}))
			model := map[string]*bucket{} // by object and sort of token
			var held []string
			take := func(key string) bool {
				b := model[key]
				if b == nil {
					b = &bucket{tokens: burst * int(refill), at: time.Now()}
					model[key] = b
				}
				b.tokens = min(burst*int(refill), b.tokens+int(time.Since(b.at)))
				b.at = time.Now()
				if b.tokens < int(refill) {
					return false
				}
				b.tokens -= int(refill)
				return true
			}
			for range 3000 {
				time.Sleep(time.Duration(random.IntN(int(refill))))
				about, reason := []store.Ref{web, shop}[random.IntN(2)], string(rune('A'+random.IntN(4)))
				id := about.Key + reason
				told = events.Event{}
				r.Normal(about, reason, "")
				repeat := slices.Contains(held, id)
				admitted := take(fmt.Sprint(about.Key, repeat))
				if got := told.Count > 0; got != admitted {
					t.Fatalf("told: told.Count > 0 = %v, want %v", got, admitted)
				}
				if repeat || admitted {
					held = append(slices.DeleteFunc(held, func(h string) bool { return h == id }), id)
					held = held[max(0, len(held)-4):]
				}
				var got []string
				for _, e := range r.Events() {
					got = append(got, e.About.Key+e.Reason)
				}
				if !slices.Equal(got, held) {
					t.Fatalf("r.Events() has %q, want %q", got, held)
				}
				if err := r.CheckInvariants(); err != nil {
					t.Fatalf("r.CheckInvariants(): %v", err)
				}
			}
		}
	})
}
