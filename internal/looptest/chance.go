package looptest

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

// Chance is the random source of a schedule. Its methods may be called concurrently.
type Chance struct {
	mu sync.Mutex
	// mu guards the following.
	random *rand.Rand
}

// NewChance returns a source for a seed. Each kind of schedule has a stream of its own.
func NewChance(seed, stream uint64) *Chance {
	return &Chance{random: rand.New(rand.NewPCG(seed, stream))}
}

// Float returns a number in [0, 1).
func (c *Chance) Float() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}

// UpTo returns a number from 0 to n-1.
func (c *Chance) UpTo(n int) int { return int(c.Float() * float64(n)) }

// Duration returns a duration below limit.
func (c *Chance) Duration(limit time.Duration) time.Duration {
	return time.Duration(c.Float() * float64(limit))
}

// Effort returns how often a model runs: all if the variable of the environment is "full", a tenth of few with -short, and few otherwise.
func Effort(variable string, few, all int) int {
	switch {
	case os.Getenv(variable) == "full":
		return all
	case testing.Short():
		return max(1, few/10)
	default:
		return few
	}
}
