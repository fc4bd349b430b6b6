package group_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/internal/group"
)

const (
	limit    = 4
	patience = time.Second
)

// database has turns that take a while. Only one test reads turns, after the last call has returned.
type database struct {
	group.Commit[int, int]
	opens, lasts time.Duration // how long Begin and Run take
	err          error         // of Begin

	mu sync.Mutex
	// mu guards turns.
	turns [][]int
}

func newDatabase(opens, lasts time.Duration) *database {
	d := &database{opens: opens, lasts: lasts}
	d.Limit, d.Patience = limit, patience
	d.Begin = func(ctx context.Context) (int, error) {
		select {
		case <-time.After(d.opens):
			return 7, d.err
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	d.Run = func(ctx context.Context, with int, requests []int) {
		if with != 7 {
			panic("not the error from Begin")
		}
		d.mu.Lock()
		d.turns = append(d.turns, slices.Clone(requests))
		d.mu.Unlock()
		select {
		case <-time.After(d.lasts):
		case <-ctx.Done():
		}
	}
	return d
}

func TestRequestsDuringTurnShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(0, 10*time.Millisecond)
		begin := time.Now()
		var g sync.WaitGroup
		for i := range 7 {
			g.Go(func() {
				if err := d.Do(t.Context(), i); err != nil {
					t.Errorf("d.Do(t.Context(), %d): %v", i, err)
				}
			})
			synctest.Wait()
		}
		g.Wait()
		if diff := cmp.Diff([][]int{{0}, {1, 2, 3, 4}, {5, 6}}, d.turns); diff != "" {
			t.Errorf("d.turns mismatch (-want +got):\n%s", diff)
		}
		if got := time.Since(begin); got != 30*time.Millisecond {
			t.Errorf("time.Since(begin) = %v, want %v", got, 30*time.Millisecond)
		}
		if err := d.Do(t.Context(), 7); err != nil {
			t.Fatalf("d.Do(t.Context(), 7): %v", err)
		}
		if diff := cmp.Diff([]int{7}, d.turns[3]); diff != "" {
			t.Errorf("d.turns[3] mismatch (-want +got), after a pause, a request begins a turn at once:\n%s", diff)
		}
	})
}

func TestRequestsDuringBeginJoinTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Millisecond, 10*time.Millisecond)
		var g sync.WaitGroup
		for i := range 3 {
			g.Go(func() {
				if err := d.Do(t.Context(), i); err != nil {
					t.Errorf("d.Do(t.Context(), %d): %v", i, err)
				}
			})
			synctest.Wait()
		}
		g.Wait()
		if diff := cmp.Diff([][]int{{0, 1, 2}}, d.turns); diff != "" {
			t.Errorf("d.turns mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestFailedBeginFailsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Millisecond, 0)
		d.err = errors.New("no connection")
		var g sync.WaitGroup
		for i := range 3 {
			g.Go(func() {
				if err := d.Do(t.Context(), i); err == nil || err.Error() != "no connection" {
					t.Errorf("d.Do(t.Context(), %d) = %v, want the error %q", i, err, "no connection")
				}
			})
		}
		g.Wait()
		if len(d.turns) != 0 {
			t.Errorf("d.turns = %v, want none", d.turns)
		}
		d.err = nil
		if err := d.Do(t.Context(), 3); err != nil {
			t.Fatalf("d.Do(t.Context(), 3): %v", err)
		}
	})
}

func TestCallReturnsWhenContextEnds(t *testing.T) {
	ended := errors.New("ended")
	// call calls Do under a context that ends after a time.
	call := func(t *testing.T, d *database, request int, after time.Duration) <-chan error {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(after, func() { cancel(ended) })
		done := make(chan error, 1)
		go func() { done <- d.Do(ctx, request) }()
		synctest.Wait()
		return done
	}
	for name, test := range map[string]func(t *testing.T, begin time.Time){
		"while it waits, and is not run": func(t *testing.T, begin time.Time) {
			d := newDatabase(0, 10*time.Millisecond)
			first, second := call(t, d, 1, time.Hour), call(t, d, 2, time.Millisecond)
			if err := <-second; !errors.Is(err, ended) {
				t.Fatalf("<-second = %v, want %v", err, ended)
			}
			if got := time.Since(begin); got != time.Millisecond {
				t.Errorf("time.Since(begin) = %v, want %v", got, time.Millisecond)
			}
			if err := <-first; err != nil {
				t.Fatalf("<-first: %v", err)
			}
			synctest.Wait()
			if diff := cmp.Diff([][]int{{1}}, d.turns); diff != "" {
				t.Errorf("d.turns mismatch (-want +got):\n%s", diff)
			}
		},
		"while it begins a turn, and another begins one": func(t *testing.T, begin time.Time) {
			d := newDatabase(10*time.Millisecond, 0)
			first, second := call(t, d, 1, time.Millisecond), call(t, d, 2, time.Hour)
			if err := <-first; !errors.Is(err, ended) {
				t.Fatalf("<-first = %v, want %v", err, ended)
			}
			if err := <-second; err != nil {
				t.Fatalf("<-second: %v", err)
			}
			if diff := cmp.Diff([][]int{{2}}, d.turns); diff != "" {
				t.Errorf("d.turns mismatch (-want +got):\n%s", diff)
			}
			if got := time.Since(begin); got != 11*time.Millisecond {
				t.Errorf("time.Since(begin) = %v, want %v", got, 11*time.Millisecond)
			}
		},
		"during the turn, which continues for other requests": func(t *testing.T, begin time.Time) {
			d := newDatabase(time.Millisecond, 10*time.Millisecond)
			first, second := call(t, d, 1, 5*time.Millisecond), call(t, d, 2, time.Hour)
			if err := <-first; !errors.Is(err, ended) {
				t.Fatalf("<-first = %v, want %v", err, ended)
			}
			if got := time.Since(begin); got != 5*time.Millisecond {
				t.Errorf("time.Since(begin) = %v, want %v", got, 5*time.Millisecond)
			}
			if err := <-second; err != nil {
				t.Fatalf("<-second: %v", err)
			}
			if got := time.Since(begin); got != 11*time.Millisecond {
				t.Errorf("time.Since(begin) = %v, want %v", got, 11*time.Millisecond)
			}
			if diff := cmp.Diff([][]int{{1, 2}}, d.turns); diff != "" {
				t.Errorf("d.turns mismatch (-want +got):\n%s", diff)
			}
		},
		"during the turn, which the last one ends": func(t *testing.T, begin time.Time) {
			d := newDatabase(time.Millisecond, time.Hour)
			first, second := call(t, d, 1, 5*time.Millisecond), call(t, d, 2, 6*time.Millisecond)
			if err := <-first; !errors.Is(err, ended) {
				t.Fatalf("<-first = %v, want %v", err, ended)
			}
			if err := <-second; !errors.Is(err, ended) {
				t.Fatalf("<-second = %v, want %v", err, ended)
			}
			if got := time.Since(begin); got != 6*time.Millisecond {
				t.Errorf("time.Since(begin) = %v, want %v", got, 6*time.Millisecond)
			}
			synctest.Wait()
			d.lasts = 0
			if err := d.Do(t.Context(), 3); err != nil {
				t.Fatalf("the turn has ended: %v", err)
			}
		},
		"before it calls": func(t *testing.T, _ time.Time) {
			d := newDatabase(0, 0)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(ended)
			if err := d.Do(ctx, 1); !errors.Is(err, ended) {
				t.Fatalf("d.Do(ctx, 1) = %v, want %v", err, ended)
			}
			if len(d.turns) != 0 {
				t.Errorf("d.turns = %v, want none", d.turns)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, time.Now()) }) })
	}
}

// A database binds what Begin returns to the context of Begin: database/sql rolls a transaction back when that context ends.
func TestResourceOutlivesTheRequestThatBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var resource context.Context
		var broken error
		g := group.Commit[context.Context, int]{
			Limit: limit, Patience: patience,
			Begin: func(ctx context.Context) (context.Context, error) {
				time.Sleep(time.Millisecond)
				return ctx, nil
			},
			Run: func(_ context.Context, with context.Context, requests []int) {
				resource = with
				time.Sleep(10 * time.Millisecond)
				broken = with.Err()
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- g.Do(ctx, 1) }()
		synctest.Wait()
		if err := g.Do(t.Context(), 2); err != nil {
			t.Fatalf("g.Do(t.Context(), 2): %v", err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("<-first = %v, want %v", err, context.DeadlineExceeded)
		}
		if broken != nil {
			t.Errorf("the context of Begin ended with that of the first request: %v", broken)
		}
		synctest.Wait()
		if resource.Err() == nil {
			t.Error("the context of Begin has not ended with the turn")
		}
	})
}

func TestTurnWhoseRequestEndsDuringBeginIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var released [][]int
		g := group.Commit[int, int]{
			Limit: limit, Patience: patience,
			Begin: func(context.Context) (int, error) { // does not notice the end of its context
				time.Sleep(10 * time.Millisecond)
				return 7, nil
			},
			Run: func(_ context.Context, _ int, requests []int) { released = append(released, slices.Clone(requests)) },
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- g.Do(ctx, 1) }()
		synctest.Wait()
		if err := g.Do(t.Context(), 2); err != nil {
			t.Fatalf("g.Do(t.Context(), 2): %v", err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("<-first = %v, want %v", err, context.DeadlineExceeded)
		}
		if diff := cmp.Diff([][]int{nil, {2}}, released); diff != "" {
			t.Errorf("runs mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestHangingTurnBlocksOthersUpToPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(0, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		hangs := make(chan error, 1)
		go func() { hangs <- d.Do(ctx, 1) }()
		synctest.Wait()
		begin := time.Now()
		d.lasts = 0
		if err := d.Do(t.Context(), 2); err != nil {
			t.Fatalf("d.Do(t.Context(), 2): %v", err)
		}
		if got := time.Since(begin); got != patience {
			t.Errorf("time.Since(begin) = %v, want %v", got, patience)
		}
		if err := d.Do(t.Context(), 3); err != nil {
			t.Fatalf("d.Do(t.Context(), 3): %v", err)
		}
		if got := time.Since(begin); got != patience {
			t.Errorf("time.Since(begin) = %v, want %v", got, patience)
		}
		cancel()
		if err := <-hangs; !errors.Is(err, context.Canceled) {
			t.Fatalf("<-hangs = %v, want %v", err, context.Canceled)
		}
		if diff := cmp.Diff([][]int{{1}, {2}, {3}}, d.turns); diff != "" {
			t.Errorf("d.turns mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestPanickingBeginBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(0, 0)
		begin := d.Begin
		d.Begin = func(context.Context) (int, error) { panic("at the disco") }
		func() {
			defer func() {
				if got := recover(); got != "at the disco" {
					t.Fatalf("d.Do panicked with %v, want that of Begin", got)
				}
			}()
			_ = d.Do(t.Context(), 1)
		}()
		d.Begin = begin
		if err := d.Do(t.Context(), 2); err != nil {
			t.Fatalf("d.Do(t.Context(), 2): %v", err)
		}
	})
}

// Callers start and give up concurrently. Each acknowledged request ran exactly once, no request ran twice, and turns
// never overlap.
func TestEachRequestRunsAtMostOnceUnderStress(t *testing.T) {
	var ran [8 * 200]atomic.Int32
	var running atomic.Int32
	d := group.Commit[int, int]{Limit: limit, Patience: time.Hour, Begin: func(context.Context) (int, error) {
		if running.Add(1) != 1 {
			return 0, errors.New("turns overlap")
		}
		return 0, nil
	}, Run: func(_ context.Context, _ int, requests []int) {
		for _, r := range requests {
			ran[r].Add(1)
		}
		running.Add(-1)
	}}
	var g sync.WaitGroup
	for w := range 8 {
		g.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				if i%3 == 0 {
					go cancel() // ends at any moment
				}
				request := 200*w + i
				err := d.Do(ctx, request)
				cancel()
				switch {
				case err == nil && ran[request].Load() != 1:
					t.Errorf("request %d was run %d times", request, ran[request].Load())
				case err != nil && !errors.Is(err, context.Canceled):
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	for i := range ran {
		if n := ran[i].Load(); n > 1 {
			t.Errorf("request %d was run %d times", i, n)
		}
	}
}
