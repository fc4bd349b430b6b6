package leaderelect_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// work is the work of a leader.
type work struct {
	byItself time.Duration // when it returns although it could continue; 0 is never
	err      error         // its result then
	panics   bool          // instead
	drain    time.Duration // how long it continues after the caller has canceled, if it may
	linger   time.Duration // how long it continues after it must stop
}

func (b work) run(ctx context.Context, l *leaderelect.Leadership) error {
	var byItself <-chan time.Time
	if b.byItself > 0 {
		byItself = time.After(b.byItself)
	}
	select {
	case <-byItself:
		if b.panics {
			panic(b.err)
		}
		return b.err
	case <-ctx.Done():
	}
	if wait.Sleep(l.Context(), b.drain) != nil {
		time.Sleep(b.linger)
	}
	return context.Cause(ctx)
}

// chance is the random source of a schedule.
type chance struct {
	mu sync.Mutex
	// mu guards the following.
	random *rand.Rand
}

func (c *chance) float() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}

func (c *chance) upTo(n int) int { return int(c.float() * float64(n)) }

func (c *chance) duration(limit time.Duration) time.Duration {
	return time.Duration(c.float() * float64(limit))
}

// work returns some work that stops in time.
func (c *chance) work(stepDown time.Duration) work {
	b := work{drain: c.duration(6 * time.Second), linger: stepDown}
	if c.upTo(3) == 0 {
		b.byItself = 1 + c.duration(20*time.Second)
		b.panics = c.upTo(3) == 0
		if b.panics || c.upTo(2) == 0 {
			b.err = errExpected
		}
	}
	return b
}

// breakCode makes user code panic sometimes: the hooks and Rand.
func (c *chance) breakCode(cfg *leaderelect.Config) {
	crash := func() {
		if c.upTo(3) == 0 {
			panic(errExpected)
		}
	}
	cfg.Rand = func() float64 { crash(); return c.float() }
	cfg.Hooks = leaderelect.Hooks{
		StartedLeading: func(uint64) { crash() },
		StoppedLeading: func(uint64, error) { crash() },
		Request:        func(string, time.Duration, error) { crash() },
	}
}
