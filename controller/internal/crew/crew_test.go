package crew_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/crew"
)

// idle is a worker that waits for work that never comes.
func idle(s *crew.Seat[int]) {
	for s.Stay() {
		<-s.Take().Done()
	}
}

func TestResizeSetsNumberOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crew.New(t.Context(), idle)
		for _, n := range []int{3, 5, 2, 0, 7, 7, 1} {
			c.Resize(n)
			synctest.Wait()
			assert.Len(t, c.Seats(), n)
			require.NoError(t, c.CheckInvariants())
		}
		c.Close()
		c.Resize(4)
		c.Wait()
		assert.Empty(t, c.Seats(), "none starts after Close")
	})
}

func TestSurplusWorkerFinishesItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		c := crew.New(t.Context(), func(s *crew.Seat[int]) {
			for s.Stay() {
				time.Sleep(time.Minute)
				done.Add(1)
			}
		})
		c.Resize(1)
		time.Sleep(90 * time.Second)
		c.Resize(2)
		time.Sleep(time.Second)
		c.Resize(1)
		c.Resize(2) // both were interrupted, and stay
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Len(t, c.Seats(), 2)
		assert.EqualValues(t, 5, done.Load())
		c.Close()
		c.Wait()
		assert.EqualValues(t, 7, done.Load())
	})
}

func TestWorkersEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := crew.New(ctx, idle)
		c.Resize(3)
		cancel()
		synctest.Wait()
		assert.Empty(t, c.Seats())
		c.Resize(3)
		assert.Empty(t, c.Seats())
		c.Close()
		c.Wait()
	})
}

func TestExitedWorkerIsReplacedInItsSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crew.New(t.Context(), func(s *crew.Seat[int]) {
			if s.State++; s.State < 4 {
				runtime.Goexit()
			}
			idle(s)
		})
		c.Resize(1)
		synctest.Wait()
		seats := c.Seats()
		require.Len(t, seats, 1)
		assert.Equal(t, 4, seats[0].State)
		require.NoError(t, c.CheckInvariants())
		c.Close()
		c.Wait()
	})
}

func hangHere(s *crew.Seat[int]) { idle(s) }

func TestSeatStackIsItsWorkersStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crew.New(t.Context(), func(s *crew.Seat[int]) {
			if s.State++; s.State == 1 {
				runtime.Goexit()
			}
			hangHere(s)
		})
		c.Resize(2)
		synctest.Wait()
		for _, s := range c.Seats() {
			stack := string(s.Stack())
			assert.Contains(t, stack, "hangHere", "of the worker that holds the seat now")
			assert.Equal(t, 1, strings.Count(stack, "goroutine "+strings.Fields(stack)[1]+" "), stack)
			assert.NotContains(t, stack, "testing.tRunner")
		}
		s := c.Seats()[0]
		c.Close()
		c.Wait()
		synctest.Wait()
		assert.Nil(t, s.Stack())
	})
}
