package shard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// The durations of the tests: the defaults.
const (
	lease   = 15 * time.Second
	renew   = 10 * time.Second
	retry   = 2 * time.Second
	request = 2500 * time.Millisecond
	latency = 2 * time.Millisecond
)

// modelRetry is the RetryPeriod of the model: longer, so that there are fewer calls.
const modelRetry = 4 * time.Second

// modelVariable makes the model run 2,000 schedules.
const modelVariable = "LEADERELECT_MODEL"

var errExpected = errors.New("failed on purpose")

// after lets d pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// effort returns few, or all if everything is to be tried.
func effort(few, all int) int {
	if os.Getenv(modelVariable) == "full" {
		return all
	}
	return few
}

// chance is the source of everything random in a schedule.
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

// termOf returns the term of the leadership of ctx.
func termOf(ctx context.Context) uint64 {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return 0
	}
	return l.Term()
}
