// Command 02-retry calls an API that fails in every way that APIs fail. It retries only the errors that a retry may fix.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

var (
	errBusy    = errors.New("busy")
	errUnknown = errors.New("no such site")
)

func main() {
	ctx := context.Background()
	backoff := wait.Backoff{Duration: time.Millisecond, Factor: 2, Jitter: 0.1, Cap: time.Second, Steps: 4}

	// Do retries until the call succeeds. An error may say how long to wait, as an API does with Retry-After.
	api := failing(errBusy, retry.After(errBusy, 3*time.Millisecond))
	check(retry.Do(ctx, retry.Config{Backoff: backoff, OnAttempt: func(_ context.Context, a retry.Attempt) {
		fmt.Printf("attempt %d: %v\n", a.Number, a.Err)
	}}, api))

	// A call that can never succeed is tried once. Do gives up on a call that has failed as often as there are steps.
	api = failing(retry.Permanent(errUnknown))
	fmt.Println("permanent:", retry.Do(ctx, retry.Config{Backoff: backoff}, api))
	api = failing(errBusy, errBusy, errBusy, errBusy)
	err := retry.Do(ctx, retry.Config{Backoff: backoff}, api)
	fmt.Println("gave up:", errors.Is(err, retry.ErrGaveUp), errors.Is(err, errBusy))

	// A poll asks at once and then at intervals. Its own timeout can be distinguished from the end of the caller's context.
	ready := 0
	check(wait.For(ctx, func(context.Context) (bool, error) {
		ready++
		return ready == 3, nil
	}))
	fmt.Println("asked until ready:", ready)
	err = wait.PollUntilContextTimeout(ctx, time.Millisecond, 5*time.Millisecond, wait.Immediate,
		func(context.Context) (bool, error) { return false, nil })
	fmt.Println("timeout:", errors.Is(err, wait.ErrTimeout), "interrupted:", wait.Interrupted(err))

	// Pieces run concurrently. A failed piece does not stop the others, and a panic is an error like any other.
	err = wait.Parallelize(ctx, 2, 4, func(_ context.Context, i int) error {
		switch i {
		case 1:
			return errBusy
		case 3:
			panic("out of range")
		}
		return nil
	})
	var captured *wait.PanicError
	fmt.Println("pieces:", errors.Is(err, errBusy), errors.As(err, &captured), captured.Value)
}

// failing returns a call that fails with each of errs in turn, and then succeeds.
func failing(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
