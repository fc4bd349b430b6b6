package lease

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2) that differ by the time that the machine was suspended.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// Asleep returns a lower and an upper bound of the time that this machine was suspended since it started. Package time
// does not see a suspend, because its clock stops with the machine (https://go.dev/issue/24595). CLOCK_BOOTTIME
// continues. Both bounds are 0 if the kernel has no such clock.
//
// The clocks cannot be read at the same time, so the bounds differ by the time between two readings. If that time is
// long, the process was suspended in between, and Asleep reads them again.
func Asleep() (least, most time.Duration) {
	for range 8 {
		before, ok1 := readClock(clockMonotonic)
		boot, ok2 := readClock(clockBoottime)
		after, ok3 := readClock(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0, 0
		}
		least, most = boot-after, boot-before
		if most-least < time.Millisecond {
			break
		}
	}
	return least, most
}

// readClock reads a clock of the kernel.
func readClock(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
