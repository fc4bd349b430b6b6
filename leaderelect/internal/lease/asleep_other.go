//go:build !linux

package lease

import (
	"time"
)

// Asleep returns 0, because this system does not report how long it was suspended. The difference between the wall clock and
// the monotonic clock is no substitute, because setting the clock changes it too.
func Asleep() (least, most time.Duration) { return 0, 0 }
