package classics_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/simtest"
)

// BenchmarkPlan is the time of a plan of one fault, for the fix of each classic and in both modes. bench/README.md has the figures.
func BenchmarkPlan(b *testing.B) {
	for _, c := range classics {
		for _, mode := range []string{"step", "run"} {
			b.Run(c.name+"/mode="+mode, func(b *testing.B) {
				plans := 0
				b.ReportAllocs()
				for b.Loop() {
					plans += simtest.Explore(new(testing.T), c.in(true, mode)).Plans
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(plans), "µs/plan")
			})
		}
	}
}
