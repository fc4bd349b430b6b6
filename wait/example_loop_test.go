package wait_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// A task that is done again and again until the program stops.
func ExampleUntil() {
	ctx, cancel := context.WithCancel(context.Background())
	rounds := 0
	err := wait.Until(ctx, time.Microsecond, func(context.Context) {
		rounds++
		fmt.Println("round", rounds)
		if rounds == 3 {
			cancel()
		}
	})
	fmt.Println(err)
	// Output:
	// round 1
	// round 2
	// round 3
	// <nil>
}

// Jitter keeps a hundred replicas from reporting at the same second. The pace says that the time of a report is part of
// the interval.
func ExamplePace() {
	ctx, cancel := context.WithCancel(context.Background())
	err := wait.JitterUntil(ctx, time.Minute, 0.2, wait.NonSliding, func(context.Context) {
		fmt.Println("report")
		cancel()
	})
	fmt.Println(err)
	// Output:
	// report
	// <nil>
}

// A connection is made again when it breaks, less and less often while it cannot be made, and given up after three
// failures in a row.
func ExampleBackoffUntil() {
	outcomes := []error{nil, errors.New("refused"), nil, errors.New("refused"), errors.New("refused"), errors.New("no route")}
	b := wait.Backoff{Duration: time.Microsecond, Factor: 2, Cap: time.Millisecond, Steps: 3}
	err := wait.BackoffUntil(context.Background(), b, wait.Sliding, func(context.Context) error {
		outcome := outcomes[0]
		outcomes = outcomes[1:]
		fmt.Println("connect:", outcome)
		return outcome
	})
	fmt.Println("stopped:", err)
	// Output:
	// connect: <nil>
	// connect: refused
	// connect: <nil>
	// connect: refused
	// connect: refused
	// connect: no route
	// stopped: no route
}

// A pause that a stop cuts short.
func ExampleSleep() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("SIGTERM"))
	fmt.Println(wait.Sleep(ctx, time.Hour))
	// Output: context canceled: SIGTERM
}
