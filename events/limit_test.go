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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

func TestFloodAboutOneObjectDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received []events.Event
		r := must(events.NewRecorder(events.Config{Burst: 3, Sink: func(e events.Event) { received = append(received, e) }}))
		r.Normal(shop, "Before", "")
		for n := range 1000 {
			r.Warning(web, "Broken", fmt.Sprint("attempt ", n))
		}
		r.Normal(shop, "After", "")
		want := []string{
			"shop Normal Before  x1", "web Warning Broken attempt 0 x1", "web Warning Broken attempt 1 x1",
			"web Warning Broken attempt 2 x1", "shop Normal After  x1",
		}
		assert.Equal(t, want, brief(r.Events()))
		assert.Equal(t, want, brief(received))
		assert.Equal(t, events.Stats{Recorded: 5, Limited: 997, Held: 5, Objects: 2}, r.Stats())
		require.NoError(t, r.CheckInvariants())
	})
}

func TestFloodOfRepeatsIsCountedAndTakesNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var received []events.Event
		r := must(events.NewRecorder(events.Config{Burst: 2, Refill: time.Minute, Sink: func(e events.Event) { received = append(received, e) }}))
		for range 100 {
			r.Warning(web, "Broken", "")
		}
		r.Normal(web, "Mended", "")
		assert.Equal(t, []string{
			"web Warning Broken  x1", "web Warning Broken  x2", "web Warning Broken  x3", "web Normal Mended  x1",
		}, brief(received), "one is new, two are repeats within the limit")
		assert.Equal(t, []string{"web Warning Broken  x100", "web Normal Mended  x1"}, brief(r.Events()))
		assert.Equal(t, events.Stats{Recorded: 101, Untold: 97, Held: 2, Objects: 1}, r.Stats())
		time.Sleep(time.Minute)
		r.Warning(web, "Broken", "")
		assert.Equal(t, 101, received[len(received)-1].Count, "the next delivery has the full count")
	})
}

func TestQuietObjectsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{Burst: 2, Refill: time.Second, Objects: 50}))
		about := func(n int) store.Ref { return store.Ref{Kind: "pod", Key: fmt.Sprint(n)} }
		for n := range 1000 {
			r.Normal(about(n), "Started", "")
			require.LessOrEqual(t, r.Stats().Objects, 50)
		}
		require.NoError(t, r.CheckInvariants())
		time.Sleep(2 * time.Second) // all buckets are full
		for n := range 60 {
			r.Normal(web, "N", fmt.Sprint(n))
		}
		assert.Equal(t, 1, r.Stats().Objects)
		require.NoError(t, r.CheckInvariants())
	})
}

func TestFloodingObjectStaysLimitedAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{Burst: 2, Objects: 3}))
		for n := range 100 {
			r.Normal(web, "N", fmt.Sprint(n)) // a dropped event counts as a use
			r.Normal(store.Ref{Kind: "pod", Key: fmt.Sprint(n)}, "Started", "")
		}
		assert.Len(t, r.EventsFor(web), 2)
		assert.EqualValues(t, 98, r.Stats().Limited)
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
		assert.Len(t, r.Events(), 100, cfg)
		require.NoError(t, r.CheckInvariants())
	}
}

func TestBurstIsLimitedWithAnyRefill(t *testing.T) {
	for _, refill := range []time.Duration{math.MaxInt64, math.MaxInt64/3 + 1, math.MaxInt64 / 3, 100 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := must(events.NewRecorder(events.Config{Burst: 3, Refill: refill}))
			for n := range 100 {
				r.Normal(web, "N", fmt.Sprint(n))
			}
			assert.Len(t, r.Events(), 3, refill)
			time.Sleep(365 * 24 * time.Hour)
			r.Normal(web, "N", "a year later")
			assert.Len(t, r.Events(), 3, refill)
			require.NoError(t, r.CheckInvariants())
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
		assert.Equal(t, 25, flood())
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 5, flood())
		time.Sleep(24 * time.Hour)
		assert.Equal(t, 25, flood())
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
		assert.Equal(t, want, got)
		assert.Equal(t, utf8.ValidString(message), utf8.ValidString(got))
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
			var received events.Event
			r := must(events.NewRecorder(events.Config{
				Size: 4, Burst: burst, Refill: refill, Sink: func(e events.Event) { received = e },
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
				received = events.Event{}
				r.Normal(about, reason, "")
				repeat := slices.Contains(held, id)
				admitted := take(fmt.Sprint(about.Key, repeat))
				if received.Count > 0 != admitted {
					t.Fatalf("seed %d: received = %v, want %v", seed, !admitted, admitted)
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
					t.Fatalf("seed %d: it holds %v, want %v", seed, got, held)
				}
				if err := r.CheckInvariants(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
