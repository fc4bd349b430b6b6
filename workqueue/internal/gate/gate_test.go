package gate_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue/internal/gate"
)

// opened is a gate, and the times at which it told that it is open.
type opened struct {
	*gate.Gate
	at []time.Time
}

func newGate(limiter *rate.Limiter) *opened {
	o := &opened{}
	o.Gate = gate.New(limiter, func() { o.at = append(o.at, time.Now()) })
	return o
}

// passes returns how many calls of Pass return true now.
func (o *opened) passes() (n int) {
	for o.Pass(time.Now()) {
		n++
	}
	return n
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestEachPassTakesOneTokenAndNoneAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(rate.Every(time.Second), 3)
		g := newGate(limiter)
		if got := g.passes(); got != 3 {
			t.Fatalf("g.passes() = %d, want 3", got)
		}
		begin := time.Now()
		for range 100 {
			if g.Pass(time.Now()) {
				t.Fatal("g.Pass(time.Now()) = true, want false: and it takes nothing")
			}
		}
		sleep(time.Second - 1)
		if len(g.at) != 0 {
			t.Fatalf("g.at = %v, want none", g.at)
		}
		if got := g.passes(); got != 0 {
			t.Fatalf("g.passes() = %d, want 0", got)
		}
		sleep(1)
		if diff := cmp.Diff([]time.Time{begin.Add(time.Second)}, g.at); diff != "" {
			t.Fatalf("g.at mismatch (-want +got):\n%s", diff)
		}
		if got := g.passes(); got != 1 {
			t.Fatalf("g.passes() = %d, want 1", got)
		}
		sleep(time.Hour)
		if len(g.at) != 2 {
			t.Fatalf("len(g.at) = %d, want 2: %v: once for each time that it was closed", len(g.at), g.at)
		}
		if got := limiter.Tokens(); math.Abs(got-3) > 1e-9 {
			t.Fatalf("limiter.Tokens() = %v, want about 3", got)
		}
		if got := g.passes(); got != 3 {
			t.Fatalf("g.passes() = %d, want 3", got)
		}
		sleep(time.Hour)
	})
}

func TestChangedLimiterIsNoticedWithinMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limiter := range []*rate.Limiter{rate.NewLimiter(rate.Every(time.Hour), 0), rate.NewLimiter(0, 0)} {
			g := newGate(limiter)
			begin := time.Now()
			if got := g.passes(); got != 0 {
				t.Fatalf("g.passes() = %d, want 0", got)
			}
			limiter.SetLimit(rate.Every(time.Second))
			limiter.SetBurst(2)
			sleep(time.Minute - 1)
			if got := g.passes(); got != 0 {
				t.Fatalf("g.passes() = %d, want 0", got)
			}
			sleep(1)
			if diff := cmp.Diff([]time.Time{begin.Add(time.Minute)}, g.at); diff != "" {
				t.Fatalf("g.at mismatch (-want +got):\n%s", diff)
			}
			if got := g.passes(); got != 2 {
				t.Fatalf("g.passes() = %d, want 2", got)
			}
			sleep(time.Hour)
		}
	})
}
