package wait_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// A service is ready at the third time of asking.
func ExampleFor() {
	asked := 0
	err := wait.For(context.Background(), func(context.Context) (bool, error) {
		asked++
		return asked == 3, nil
	})
	fmt.Println(asked, err)
	// Output: 3 <nil>
}

// The caller wants to know whether its own limit ended the wait, or the program was stopped.
func ExamplePollUntilContextTimeout() {
	never := func(context.Context) (bool, error) { return false, nil }
	describe := func(err error) string {
		switch {
		case errors.Is(err, wait.ErrTimeout):
			return "too slow"
		case wait.Interrupted(err):
			return "stopped"
		}
		return "failed"
	}

	err := wait.PollUntilContextTimeout(context.Background(), time.Hour, time.Millisecond, wait.Immediate, never)
	fmt.Println(describe(err), "-", err)

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("SIGTERM"))
	err = wait.PollUntilContextTimeout(ctx, time.Hour, time.Millisecond, wait.Immediate, never)
	fmt.Println(describe(err), "-", err)
	// Output:
	// too slow - wait: condition not met: context deadline exceeded: timeout after 1ms
	// stopped - wait: condition not met: context canceled: SIGTERM
}

// The type names what a poll waits for, so that conditions can be made and passed around.
func ExampleCondition() {
	asked := 0
	atLeast := func(n int) wait.Condition {
		return func(context.Context) (bool, error) { asked++; return asked >= n, nil }
	}
	fmt.Println(wait.PollUntilContextCancel(context.Background(), time.Nanosecond, wait.Immediate, atLeast(2)))
	fmt.Println(asked)
	// Output:
	// <nil>
	// 2
}

// Three questions at most.
func ExampleExponentialBackoffWithContext() {
	b := wait.Backoff{Duration: time.Microsecond, Factor: 2, Steps: 3}
	err := wait.ExponentialBackoffWithContext(context.Background(), b, func(context.Context) (bool, error) {
		fmt.Println("are we there yet?")
		return false, nil
	})
	fmt.Println(err)
	// Output:
	// are we there yet?
	// are we there yet?
	// are we there yet?
	// wait: condition not met: timeout after 3 steps
}

// A start is given by name, so that the call can be read.
func ExampleStart() {
	poll := func(start wait.Start, timeout time.Duration) (asked int) {
		_ = wait.PollUntilContextTimeout(context.Background(), time.Hour, timeout, start, func(context.Context) (bool, error) {
			asked++
			return true, nil
		})
		return asked
	}
	fmt.Println(poll(wait.Immediate, time.Minute))
	fmt.Println(poll(wait.Delayed, time.Millisecond)) // over before the first hour is
	// Output:
	// 1
	// 0
}
