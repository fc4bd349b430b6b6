package looptest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		assert.False(t, r.Ended())
	})
	assert.True(t, ended)
}

func TestStopReturnsLoopError(t *testing.T) {
	end := errors.New("the end")
	r := looptest.Start(t, func(ctx context.Context) error {
		<-ctx.Done()
		return end
	})
	require.ErrorIs(t, r.Stop(), end)
	require.ErrorIs(t, r.Stop(), end)
	assert.True(t, r.Ended())
}

// Guarantee 2.
func TestStacksAreOfBubble(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	go func() { <-hold }() // of no bubble
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			before := len(looptest.Stacks(t)) // the test, and those that run the bubble
			assert.Less(t, before, 5)
			r := looptest.Start(t, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
			synctest.Wait()
			stacks := looptest.Stacks(t)
			assert.Len(t, stacks, before+1)
			assert.Contains(t, stacks[0], "looptest.Stacks")
			require.NoError(t, r.Stop())
			synctest.Wait()
			assert.Len(t, looptest.Stacks(t), before)
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
		assert.Empty(t, s.failed)
		looptest.NoGoroutines(s, "controller", "internal/looptest")
		assert.Len(t, s.failed, 1)
		require.NoError(t, r.Stop())
		looptest.NoGoroutines(t, "internal/looptest")
	})
}

func TestLogIsTakenOnce(t *testing.T) {
	var l looptest.Log[int]
	l.Add(1)
	l.Add(2)
	assert.Equal(t, []int{1, 2}, l.All())
	assert.Equal(t, 2, l.Len())
	assert.Equal(t, []int{1, 2}, l.Take())
	assert.Empty(t, l.Take())
}

func TestLoggerWritesNoTimes(t *testing.T) {
	var text looptest.Text
	looptest.Logger(&text).Info("begun", "n", 1)
	assert.Equal(t, "level=INFO msg=begun n=1", strings.TrimSpace(text.String()))
}

func TestLanesCallEachNumberOnce(t *testing.T) {
	var seen looptest.Log[int]
	t.Run("ten", func(t *testing.T) {
		looptest.Lanes(t, 10, func(_ *testing.T, i int) { seen.Add(i) })
	})
	assert.ElementsMatch(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, seen.All())
}
