package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// batches runs n pieces of a second each, and returns which of them ran in which second. Those in bad fail.
func batches(t *testing.T, n int, bad ...int) (ran [][]int, done, skipped int, err error) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		start := time.Now()
		done, skipped, err = wait.SlowStart(t.Context(), n, func(_ context.Context, i int) error {
			mu.Lock()
			if second := int(time.Since(start) / time.Second); second == len(ran) {
				ran = append(ran, []int{i})
			} else {
				ran[second] = append(ran[second], i)
			}
			mu.Unlock()
			time.Sleep(time.Second)
			if slices.Contains(bad, i) {
				return fmt.Errorf("piece %d: %w", i, io.EOF)
			}
			return nil
		})
		for _, batch := range ran {
			slices.Sort(batch)
		}
	})
	return ran, done, skipped, err
}

func TestSlowStartStopsAfterFailedBatch(t *testing.T) {
	for _, c := range []struct {
		n             int
		bad           []int
		ran           string
		done, skipped int
		err           string
	}{
		{n: -1, ran: "[]"},
		{n: 0, ran: "[]"},
		{n: 1, ran: "[[0]]", done: 1},
		{n: 2, ran: "[[0] [1]]", done: 2},
		{n: 3, ran: "[[0] [1 2]]", done: 3},
		{n: 10, ran: "[[0] [1 2] [3 4 5 6] [7 8 9]]", done: 10},
		{n: 10, bad: []int{0}, ran: "[[0]]", skipped: 9, err: "piece 0: EOF"},
		{n: 10, bad: []int{2, 4}, ran: "[[0] [1 2]]", done: 2, skipped: 7, err: "piece 2: EOF"},
		{n: 10, bad: []int{6, 4}, ran: "[[0] [1 2] [3 4 5 6]]", done: 5, skipped: 3, err: "piece 4: EOF\npiece 6: EOF"},
		{n: 10, bad: []int{9}, ran: "[[0] [1 2] [3 4 5 6] [7 8 9]]", done: 9, err: "piece 9: EOF"},
	} {
		ran, done, skipped, err := batches(t, c.n, c.bad...)
		if got := fmt.Sprint(ran); got != c.ran {
			t.Errorf("%d pieces: fmt.Sprint(ran) = %q, want %q", c.n, got, c.ran)
		}
		if got, want := ([]int{done, skipped}), ([]int{c.done, c.skipped}); !slices.Equal(got, want) {
			t.Errorf("%d pieces: []int{done, skipped} = %v, want %v", c.n, got, want)
		}
		if c.err == "" {
			if err != nil {
				t.Fatal(err)
			}
		} else {
			if got := fmt.Sprint(err); got != c.err {
				t.Fatalf("err = %q, want %q", got, c.err)
			}
			if !errors.Is(err, io.EOF) {
				t.Fatalf("err = %v, want %v", err, io.EOF)
			}
		}
	}
}

func TestSlowStartCountsPanicAsFailure(t *testing.T) {
	for _, end := range []func(){func() { panic(io.EOF) }, runtime.Goexit} {
		done, skipped, err := wait.SlowStart(t.Context(), 9, func(_ context.Context, i int) error {
			if i == 4 {
				end()
			}
			return nil
		})
		if got, want := ([]int{done, skipped}), ([]int{6, 2}); !slices.Equal(got, want) {
			t.Errorf("[]int{done, skipped} = %v, want %v", got, want)
		}
		if err == nil {
			t.Fatal("err = nil, want an error")
		}
		if errors.Is(err, io.EOF) {
			if got, want := fmt.Sprint(err), "wait: run piece 4: wait: recover from panic: EOF"; got != want {
				t.Errorf("err = %q, want %q", got, want)
			}
			p := (*wait.PanicError)(nil)
			if !errors.As(err, &p) {
				t.Fatalf("err = %v, want one of type *wait.PanicError", err)
			}
			if got, want := string(p.Stack), "TestSlowStartCountsPanicAsFailure"; !strings.Contains(got, want) {
				t.Errorf("string(p.Stack) = %q, want it to contain %q", got, want)
			}
		}
	}
}

func TestSlowStartStartsNothingAfterContextEnds(t *testing.T) {
	why := errors.New("maintenance")
	for stop := range 5 { // while this piece runs
		ctx, cancel := context.WithCancelCause(t.Context())
		done, skipped, err := wait.SlowStart(ctx, 15, func(_ context.Context, i int) error {
			if i == stop {
				cancel(why)
			}
			return nil
		})
		if !errors.Is(err, why) {
			t.Fatalf("err = %v, want %v", err, why)
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v, want %v", err, context.Canceled)
		}
		if got := done + skipped; got != 15 {
			t.Errorf("done+skipped = %v, want 15", got)
		}
		if done <= stop {
			t.Errorf("done = %v, want more than %v", done, stop)
		}
		if skipped < 8 {
			t.Errorf("the batch after it: skipped = %v, want at least 8", skipped)
		}
		if got := strings.Count(err.Error(), "not begun"); got != 1 {
			t.Errorf(`strings.Count(err.Error(), "not begun") = %v, want 1`, got)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	done, skipped, err := wait.SlowStart(ctx, 7, func(context.Context, int) error { panic("begun") })
	if !errors.Is(err, why) {
		t.Fatalf("err = %v, want %v", err, why)
	}
	if got, want := ([]int{done, skipped}), ([]int{0, 7}); !slices.Equal(got, want) {
		t.Errorf("[]int{done, skipped} = %v, want %v", got, want)
	}
}
