package looptest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/internal/looptest"
)

// spy is a test that may fail.
type spy struct {
	testing.TB
	failed []string
}

func (s *spy) Helper() {}

func (s *spy) Errorf(format string, _ ...any) { s.failed = append(s.failed, format) }

// Guarantee 1.
func TestLoopEndsWithTest(t *testing.T) {
	ended := false
	t.Run("a test", func(t *testing.T) {
		r := looptest.Start(t, func(ctx context.Context) error {
			<-ctx.Done()
			ended = true
			return errors.New("the end")
		})
		if r.Ended() {
			t.Error("r.Ended() = true, want false")
		}
	})
	if !ended {
		t.Error("ended = false, want true")
	}
}

func TestStopReturnsLoopError(t *testing.T) {
	end := errors.New("the end")
	r := looptest.Start(t, func(ctx context.Context) error {
		<-ctx.Done()
		return end
	})
	if err := r.Stop(); !errors.Is(err, end) {
		t.Fatalf("r.Stop() = %v, want %v", err, end)
	}
	if err := r.Stop(); !errors.Is(err, end) {
		t.Fatalf("r.Stop() = %v, want %v", err, end)
	}
	if !r.Ended() {
		t.Error("r.Ended() = false, want true")
	}
}

// Guarantee 2.
func TestStacksAreOfBubble(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	go func() { <-hold }() // of no bubble
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			before := len(looptest.Stacks(t)) // the test, and those that run the bubble
			if before >= 5 {
				t.Errorf("before = %d, want less than 5", before)
			}
			r := looptest.Start(t, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
			synctest.Wait()
			stacks := looptest.Stacks(t)
			if len(stacks) != before+1 {
				t.Errorf("len(stacks) = %d, want %d: %q", len(stacks), before+1, stacks)
			}
			if !strings.Contains(stacks[0], "looptest.Stacks") {
				t.Errorf(`stacks[0] = %q, want it to contain "looptest.Stacks"`, stacks[0])
			}
			if err := r.Stop(); err != nil {
				t.Fatalf("r.Stop(): %v", err)
			}
			synctest.Wait()
			if got := looptest.Stacks(t); len(got) != before {
				t.Errorf("len(looptest.Stacks(t)) = %d, want %d: %q", len(got), before, got)
			}
		})
	}
}

func TestLeakedGoroutineFailsTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := looptest.Start(t, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		s := &spy{TB: t}
		looptest.NoGoroutines(s, "controller")
		if len(s.failed) != 0 {
			t.Errorf("s.failed = %v, want none", s.failed)
		}
		looptest.NoGoroutines(s, "controller", "internal/looptest")
		if len(s.failed) != 1 {
			t.Errorf("len(s.failed) = %d, want 1: %q", len(s.failed), s.failed)
		}
		if err := r.Stop(); err != nil {
			t.Fatalf("r.Stop(): %v", err)
		}
		looptest.NoGoroutines(t, "internal/looptest")
	})
}

func TestLogIsTakenOnce(t *testing.T) {
	var l looptest.Log[int]
	l.Add(1)
	l.Add(2)
	if diff := cmp.Diff([]int{1, 2}, l.All()); diff != "" {
		t.Errorf("l.All() mismatch (-want +got):\n%s", diff)
	}
	if got := l.Len(); got != 2 {
		t.Errorf("l.Len() = %d, want 2", got)
	}
	if diff := cmp.Diff([]int{1, 2}, l.Take()); diff != "" {
		t.Errorf("l.Take() mismatch (-want +got):\n%s", diff)
	}
	if got := l.Take(); len(got) != 0 {
		t.Errorf("l.Take() = %v, want none", got)
	}
}

func TestLoggerWritesNoTimes(t *testing.T) {
	var text looptest.Text
	looptest.Logger(&text).Info("begun", "n", 1)
	if got := strings.TrimSpace(text.String()); got != "level=INFO msg=begun n=1" {
		t.Errorf(`strings.TrimSpace(text.String()) = %q, want "level=INFO msg=begun n=1"`, got)
	}
}

func TestLanesCallEachNumberOnce(t *testing.T) {
	var seen looptest.Log[int]
	t.Run("ten", func(t *testing.T) {
		looptest.Lanes(t, 10, func(_ *testing.T, i int) { seen.Add(i) })
	})
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, slices.Sorted(slices.Values(seen.All()))); diff != "" {
		t.Errorf("seen, sorted, mismatch (-want +got):\n%s", diff)
	}
}

func TestChanceOfSameSeedIsTheSame(t *testing.T) {
	one, two := looptest.NewChance(1, 2), looptest.NewChance(1, 2)
	for range 100 {
		if a, b := one.UpTo(7), two.UpTo(7); a != b || a < 0 || a > 6 {
			t.Fatalf("one.UpTo(7) = %d, two.UpTo(7) = %d, want the same number from 0 to 6", a, b)
		}
		if a, b := one.Duration(time.Second), two.Duration(time.Second); a != b || a < 0 || a >= time.Second {
			t.Fatalf("one.Duration(time.Second) = %v, two.Duration(time.Second) = %v, want the same duration below 1s", a, b)
		}
	}
}

// Guarantee 4.
func TestStartedCountsOnlyOwnDescendants(t *testing.T) {
	leave := make(chan struct{})
	var running, ended sync.WaitGroup
	sleep := func() {
		running.Done()
		<-leave
	}
	running.Add(2)
	ended.Go(sleep) // before
	startAnother := make(chan struct{})
	ended.Go(func() { // by a goroutine that is not a descendant
		<-startAnother
		ended.Go(sleep)
	})

	started := looptest.Started(t)
	close(startAnother)
	running.Wait()
	if n := started(); n != 0 {
		t.Errorf("started() = %d, want 0", n)
	}

	running.Add(5)
	for range 3 {
		ended.Go(sleep)
	}
	ended.Go(func() {
		ended.Go(sleep)
		sleep()
	})
	running.Wait()
	if n := started(); n != 5 {
		t.Errorf("started() = %d, want 5", n)
	}
	close(leave)
	ended.Wait()
	for end := time.Now().Add(time.Minute); started() != 0; runtime.Gosched() { // an ended WaitGroup is a bit ahead of its goroutines
		if time.Now().After(end) {
			t.Fatalf("started() = %d, want 0", started())
		}
	}
}
