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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		assert.Equal(t, c.ran, fmt.Sprint(ran), "%d pieces", c.n)
		assert.Equal(t, []int{c.done, c.skipped}, []int{done, skipped}, "%d pieces", c.n)
		if c.err == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.err)
			require.ErrorIs(t, err, io.EOF)
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
		assert.Equal(t, []int{6, 2}, []int{done, skipped})
		require.Error(t, err)
		if errors.Is(err, io.EOF) {
			assert.EqualError(t, err, "wait: run piece 4: panic: EOF")
			p := (*wait.PanicError)(nil)
			require.ErrorAs(t, err, &p)
			assert.Contains(t, string(p.Stack), "TestSlowStartCountsPanicAsFailure")
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
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 15, done+skipped)
		assert.Greater(t, done, stop)
		assert.GreaterOrEqual(t, skipped, 8, "the batch after it")
		assert.Equal(t, 1, strings.Count(err.Error(), "not begun"))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	done, skipped, err := wait.SlowStart(ctx, 7, func(context.Context, int) error { panic("begun") })
	require.ErrorIs(t, err, why)
	assert.Equal(t, []int{0, 7}, []int{done, skipped})
}
