package gate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
		require.Equal(t, 3, g.passes())
		begin := time.Now()
		for range 100 {
			require.False(t, g.Pass(time.Now()), "and it takes nothing")
		}
		sleep(time.Second - 1)
		require.Empty(t, g.at)
		require.Zero(t, g.passes())
		sleep(1)
		require.Equal(t, []time.Time{begin.Add(time.Second)}, g.at)
		require.Equal(t, 1, g.passes())
		sleep(time.Hour)
		require.Len(t, g.at, 2, "once for each time that it was closed")
		require.InDelta(t, 3, limiter.Tokens(), 1e-9)
		require.Equal(t, 3, g.passes())
		sleep(time.Hour)
	})
}

func TestChangedLimiterIsNoticedWithinMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limiter := range []*rate.Limiter{rate.NewLimiter(rate.Every(time.Hour), 0), rate.NewLimiter(0, 0)} {
			g := newGate(limiter)
			begin := time.Now()
			require.Zero(t, g.passes())
			limiter.SetLimit(rate.Every(time.Second))
			limiter.SetBurst(2)
			sleep(time.Minute - 1)
			require.Zero(t, g.passes())
			sleep(1)
			require.Equal(t, []time.Time{begin.Add(time.Minute)}, g.at)
			require.Equal(t, 2, g.passes())
			sleep(time.Hour)
		}
	})
}
