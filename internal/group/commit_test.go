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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			g.Go(func() { assert.NoError(t, d.Do(t.Context(), i)) })
			synctest.Wait()
		}
		g.Wait()
		assert.Equal(t, [][]int{{0}, {1, 2, 3, 4}, {5, 6}}, d.turns)
		assert.Equal(t, 30*time.Millisecond, time.Since(begin))
		require.NoError(t, d.Do(t.Context(), 7))
		assert.Equal(t, []int{7}, d.turns[3], "after a pause, a request begins a turn at once")
	})
}

func TestRequestsDuringBeginJoinTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Millisecond, 10*time.Millisecond)
		var g sync.WaitGroup
		for i := range 3 {
			g.Go(func() { assert.NoError(t, d.Do(t.Context(), i)) })
			synctest.Wait()
		}
		g.Wait()
		assert.Equal(t, [][]int{{0, 1, 2}}, d.turns)
	})
}

func TestFailedBeginFailsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(time.Millisecond, 0)
		d.err = errors.New("no connection")
		var g sync.WaitGroup
		for i := range 3 {
			g.Go(func() { assert.EqualError(t, d.Do(t.Context(), i), "no connection") })
		}
		g.Wait()
		assert.Empty(t, d.turns)
		d.err = nil
		require.NoError(t, d.Do(t.Context(), 3))
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
			require.ErrorIs(t, <-second, ended)
			assert.Equal(t, time.Millisecond, time.Since(begin))
			require.NoError(t, <-first)
			synctest.Wait()
			assert.Equal(t, [][]int{{1}}, d.turns)
		},
		"while it begins a turn, and another begins one": func(t *testing.T, begin time.Time) {
			d := newDatabase(10*time.Millisecond, 0)
			first, second := call(t, d, 1, time.Millisecond), call(t, d, 2, time.Hour)
			require.ErrorIs(t, <-first, ended)
			require.NoError(t, <-second)
			assert.Equal(t, [][]int{{2}}, d.turns)
			assert.Equal(t, 11*time.Millisecond, time.Since(begin))
		},
		"during the turn, which continues for other requests": func(t *testing.T, begin time.Time) {
			d := newDatabase(time.Millisecond, 10*time.Millisecond)
			first, second := call(t, d, 1, 5*time.Millisecond), call(t, d, 2, time.Hour)
			require.ErrorIs(t, <-first, ended)
			assert.Equal(t, 5*time.Millisecond, time.Since(begin))
			require.NoError(t, <-second)
			assert.Equal(t, 11*time.Millisecond, time.Since(begin))
			assert.Equal(t, [][]int{{1, 2}}, d.turns)
		},
		"during the turn, which the last one ends": func(t *testing.T, begin time.Time) {
			d := newDatabase(time.Millisecond, time.Hour)
			first, second := call(t, d, 1, 5*time.Millisecond), call(t, d, 2, 6*time.Millisecond)
			require.ErrorIs(t, <-first, ended)
			require.ErrorIs(t, <-second, ended)
			assert.Equal(t, 6*time.Millisecond, time.Since(begin))
			synctest.Wait()
			d.lasts = 0
			require.NoError(t, d.Do(t.Context(), 3), "the turn has ended")
		},
		"before it calls": func(t *testing.T, _ time.Time) {
			d := newDatabase(0, 0)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(ended)
			require.ErrorIs(t, d.Do(ctx, 1), ended)
			assert.Empty(t, d.turns)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, time.Now()) }) })
	}
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
		require.NoError(t, d.Do(t.Context(), 2))
		assert.Equal(t, patience, time.Since(begin))
		require.NoError(t, d.Do(t.Context(), 3))
		assert.Equal(t, patience, time.Since(begin))
		cancel()
		require.ErrorIs(t, <-hangs, context.Canceled)
		assert.Equal(t, [][]int{{1}, {2}, {3}}, d.turns)
	})
}

func TestPanickingBeginBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(0, 0)
		begin := d.Begin
		d.Begin = func(context.Context) (int, error) { panic("at the disco") }
		require.Panics(t, func() { _ = d.Do(t.Context(), 1) })
		d.Begin = begin
		require.NoError(t, d.Do(t.Context(), 2))
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
