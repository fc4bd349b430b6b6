package controller_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// BenchmarkEndWorkers measures how long idle workers take to end, per worker. When each worker was looked for among all others,
// 16 times as many workers took 25 times as long each.
func BenchmarkEndWorkers(b *testing.B) {
	for _, workers := range []int{1_000, 16_000} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c, _ := newController(b, controller.Config[string]{Workers: workers}, noop)
				r := looptest.Start(b, c.Run)
				c.Add("a")
				require.NoError(b, c.WaitIdle(b.Context())) // it has begun
				b.StartTimer()
				require.NoError(b, r.Stop())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*workers), "ns/worker")
		})
	}
}
