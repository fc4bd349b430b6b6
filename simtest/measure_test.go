//go:build unix

package simtest

import (
	"syscall"
	"testing"
	"time"
)

// MeasurePlans runs the plans of one fault of a world in turn. It reports the time of the processor per plan, not that of the
// clock, and the lines of a timeline.
func MeasurePlans(b *testing.B, world func() World) {
	defer silence()()
	t := new(testing.T)
	x := newExplorer(t, world)
	all := singles(x.withoutFaults(nil))
	entries := 0
	began := processorTime()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		x.try(Plan{all[i%len(all)].Fault})
		entries += len(x.last.timeline.entries)
	}
	spent := float64(processorTime()-began) / 1e3
	b.ReportMetric(spent/float64(b.N), "cpu-µs/plan")
	b.ReportMetric(float64(entries)/float64(b.N), "lines/plan")
	b.ReportMetric(spent/float64(entries), "cpu-µs/line")
}

// processorTime is that of the whole process, with the garbage collector.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
