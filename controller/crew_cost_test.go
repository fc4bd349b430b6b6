package controller_test

import (
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/stretchr/testify/require"
)

// Sixteen times as many workers take about 30 times as long to end, because of their memory. When each was looked for among all
// others, it was 400.
func TestTheTimeToEndWorkersIsLinearInTheirNumber(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has a limit of 8,000 goroutines")
	}
	const few, many, limit = 1_000, 16_000, 100
	end := func(workers int) time.Duration {
		c, _ := newController(t, controller.Config[string]{Workers: workers}, noop)
		r := start(t, c.Run)
		c.Add("a")
		require.NoError(t, c.WaitIdle(t.Context())) // it has begun
		began := time.Now()
		require.NoError(t, r.stop())
		return time.Since(began)
	}
	// Others use the machine, too: the least of several times is the one that counts.
	fewTook := end(few)
	for range 4 {
		fewTook = min(fewTook, end(few))
	}
	manyTook := end(many)
	for range 4 {
		if manyTook <= limit*fewTook {
			break
		}
		manyTook = min(manyTook, end(many))
	}
	require.LessOrEqual(t, manyTook, limit*fewTook, "%d workers took %v", few, fewTook)
}
