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

// Asleep returns how long this machine has been suspended since it started, between two bounds. A suspend is invisible to
// package time, whose clock stops with the machine (https://go.dev/issue/24595); CLOCK_BOOTTIME goes on. Both bounds are
// 0 if the kernel does not tell.
//
// The clocks cannot be read at once, so the bounds are apart by what lies between two readings. If that is long, the
// process was stopped in between, and they are read again.
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

// readClock returns what a clock of the kernel shows.
func readClock(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
