package dispatch_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue/internal/dispatch"
)

// limited is a limit, and the times at which it called wake.
type limited struct {
	*dispatch.Limit
	at []time.Time
}

func newLimit(limiter *rate.Limiter) *limited {
	l := &limited{}
	l.Limit = dispatch.New(limiter, func() { l.at = append(l.at, time.Now()) })
	return l
}

// allowed returns how many calls of Allow return true now.
func (l *limited) allowed() (n int) {
	for l.Allow(time.Now()) {
		n++
	}
	return n
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestEachAllowTakesOneTokenAndNoneAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(rate.Every(time.Second), 3)
		l := newLimit(limiter)
		if got := l.allowed(); got != 3 {
			t.Fatalf("l.allowed() = %d, want 3", got)
		}
		begin := time.Now()
		for range 100 {
			if l.Allow(time.Now()) {
				t.Fatal("l.Allow(time.Now()) = true, want false: and it takes nothing")
			}
		}
		sleep(time.Second - 1)
		if len(l.at) != 0 {
			t.Fatalf("l.at = %v, want none", l.at)
		}
		if got := l.allowed(); got != 0 {
			t.Fatalf("l.allowed() = %d, want 0", got)
		}
		sleep(1)
		if diff := cmp.Diff([]time.Time{begin.Add(time.Second)}, l.at); diff != "" {
			t.Fatalf("l.at mismatch (-want +got):\n%s", diff)
		}
		if got := l.allowed(); got != 1 {
			t.Fatalf("l.allowed() = %d, want 1", got)
		}
		sleep(time.Hour)
		if len(l.at) != 2 {
			t.Fatalf("len(l.at) = %d, want 2: %v: once for each time that it refused", len(l.at), l.at)
		}
		if got := limiter.Tokens(); math.Abs(got-3) > 1e-9 {
			t.Fatalf("limiter.Tokens() = %v, want about 3", got)
		}
		if got := l.allowed(); got != 3 {
			t.Fatalf("l.allowed() = %d, want 3", got)
		}
		sleep(time.Hour)
	})
}

func TestChangedLimiterIsNoticedWithinMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limiter := range []*rate.Limiter{rate.NewLimiter(rate.Every(time.Hour), 0), rate.NewLimiter(0, 0)} {
			l := newLimit(limiter)
			begin := time.Now()
			if got := l.allowed(); got != 0 {
				t.Fatalf("l.allowed() = %d, want 0", got)
			}
			limiter.SetLimit(rate.Every(time.Second))
			limiter.SetBurst(2)
			sleep(time.Minute - 1)
			if got := l.allowed(); got != 0 {
				t.Fatalf("l.allowed() = %d, want 0", got)
			}
			sleep(1)
			if diff := cmp.Diff([]time.Time{begin.Add(time.Minute)}, l.at); diff != "" {
				t.Fatalf("l.at mismatch (-want +got):\n%s", diff)
			}
			if got := l.allowed(); got != 2 {
				t.Fatalf("l.allowed() = %d, want 2", got)
			}
			sleep(time.Hour)
		}
	})
}
