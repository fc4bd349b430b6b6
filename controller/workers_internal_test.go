package controller

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// newWorkers returns workers of this work.
func newWorkers(ctx context.Context, work func(*worker[int])) *workers[int] {
	return &workers[int]{ctx: ctx, work: work}
}

// idle is a worker that waits for work that never comes.
func idle(s *worker[int]) {
	for s.stay() {
		<-s.take.Done()
	}
}

func TestResizeSetsNumberOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorkers(t.Context(), idle)
		for _, n := range []int{3, 5, 2, 0, 7, 7, 1} {
			c.resize(n)
			synctest.Wait()
			if got := c.list(); len(got) != n {
				t.Errorf("len(c.list()) = %d, want %d: %v", len(got), n, got)
			}
			if err := c.checkInvariants(); err != nil {
				t.Fatal(err)
			}
		}
		c.close()
		c.resize(4)
		c.wait()
		if got := c.list(); len(got) != 0 {
			t.Errorf("c.list() = %v, want none: none starts after Close", got)
		}
	})
}

func TestSurplusWorkerFinishesItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int64
		c := newWorkers(t.Context(), func(s *worker[int]) {
			for s.stay() {
				time.Sleep(time.Minute)
				done.Add(1)
			}
		})
		c.resize(1)
		time.Sleep(90 * time.Second)
		c.resize(2)
		time.Sleep(time.Second)
		c.resize(1)
		c.resize(2) // both were interrupted, and stay
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := c.list(); len(got) != 2 {
			t.Errorf("len(c.list()) = %d, want 2: %v", len(got), got)
		}
		if got := done.Load(); got != 5 {
			t.Errorf("done.Load() = %d, want 5", got)
		}
		c.close()
		c.wait()
		if got := done.Load(); got != 7 {
			t.Errorf("done.Load() = %d, want 7", got)
		}
	})
}

func TestWorkersEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newWorkers(ctx, idle)
		c.resize(3)
		cancel()
		synctest.Wait()
		if got := c.list(); len(got) != 0 {
			t.Errorf("c.list() = %v, want none", got)
		}
		c.resize(3)
		if got := c.list(); len(got) != 0 {
			t.Errorf("c.list() = %v, want none", got)
		}
		c.close()
		c.wait()
	})
}
