package wait_test

import (
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// A Backoff says how long to wait. The caller counts the failures.
func ExampleBackoff() {
	b := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: time.Second}
	for failures := range 6 {
		fmt.Println(b.Delay(failures))
	}
	// Output:
	// 100ms
	// 200ms
	// 400ms
	// 800ms
	// 1s
	// 1s
}

// How long can four attempts take, at worst?
func ExampleBackoff_Delays() {
	b := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 5, Jitter: 0.1, Steps: 4}
	b.Rand = func() float64 { return 1 }
	var worst time.Duration
	for d := range b.Delays() {
		worst += d
	}
	fmt.Println(worst)
	// Output: 341ms
}
