package crew_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
			if got := c.Seats(); len(got) != n {
				t.Errorf("len(c.Seats()) = %d, want %d: %v", len(got), n, got)
			}
			if err := c.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		c.Resize(4)
		c.Wait()
		if got := c.Seats(); len(got) != 0 {
			t.Errorf("c.Seats() = %v, want none: none starts after Close", got)
		}
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
		if got := c.Seats(); len(got) != 2 {
			t.Errorf("len(c.Seats()) = %d, want 2: %v", len(got), got)
		}
		if got := done.Load(); got != 5 {
			t.Errorf("done.Load() = %d, want 5", got)
		}
		c.Close()
		c.Wait()
		if got := done.Load(); got != 7 {
			t.Errorf("done.Load() = %d, want 7", got)
		}
	})
}

func TestWorkersEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := crew.New(ctx, idle)
		c.Resize(3)
		cancel()
		synctest.Wait()
		if got := c.Seats(); len(got) != 0 {
			t.Errorf("c.Seats() = %v, want none", got)
		}
		c.Resize(3)
		if got := c.Seats(); len(got) != 0 {
			t.Errorf("c.Seats() = %v, want none", got)
		}
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
		if len(seats) != 1 {
			t.Fatalf("len(seats) = %d, want 1: %v", len(seats), seats)
		}
		if seats[0].State != 4 {
			t.Errorf("seats[0].State = %d, want 4", seats[0].State)
		}
		if err := c.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
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
			if !strings.Contains(stack, "hangHere") {
				t.Errorf(`stack = %q, want it to contain "hangHere": of the worker that holds the seat now`, stack)
			}
			if got := strings.Count(stack, "goroutine "+strings.Fields(stack)[1]+" "); got != 1 {
				t.Errorf(`%s: strings.Count(stack, "goroutine "+strings.Fields(stack)[1]+" ") = %d, want 1`, stack, got)
			}
			if strings.Contains(stack, "testing.tRunner") {
				t.Errorf(`stack = %q, want it without "testing.tRunner"`, stack)
			}
		}
		s := c.Seats()[0]
		c.Close()
		c.Wait()
		synctest.Wait()
		if got := s.Stack(); got != nil {
			t.Errorf("s.Stack() = %v, want nil", got)
		}
	})
}
