package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// A service that is busy twice.
func ExampleDo() {
	calls := 0
	err := retry.Do(context.Background(), retry.Config{}, func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("busy")
		}
		return nil
	})
	fmt.Println(calls, err)
	// Output: 3 <nil>
}

// Every knob: a backoff, which errors are worth another attempt, and a look at each attempt.
func ExampleConfig() {
	errBusy := errors.New("busy")
	cfg := retry.Config{
		Backoff:   wait.Backoff{Duration: time.Microsecond, Factor: 2, Steps: 4},
		Retriable: func(err error) bool { return errors.Is(err, errBusy) },
		OnAttempt: func(_ context.Context, a retry.Attempt) {
			fmt.Printf("attempt %d: %v, next in %v\n", a.Number, a.Err, a.Delay)
		},
	}
	fmt.Println(retry.Do(context.Background(), cfg, func(context.Context) error { return errBusy }))
	// Output:
	// attempt 1: busy, next in 1µs
	// attempt 2: busy, next in 2µs
	// attempt 3: busy, next in 4µs
	// attempt 4: busy, next in 0s
	// retry: gave up after attempt 4: busy
}

// An Attempt reports whether another one follows, so that only the final failure is logged as an error.
func ExampleAttempt() {
	cfg := retry.Config{OnAttempt: func(_ context.Context, a retry.Attempt) {
		if a.Last && a.Err != nil {
			fmt.Printf("failed for good after %d: %v\n", a.Number, a.Err)
		}
	}}
	_ = retry.Do(context.Background(), cfg, func(context.Context) error {
		return retry.Permanent(errors.New("no such tenant"))
	})
	// Output: failed for good after 1: no such tenant
}

func ExampleDoValue() {
	replies := []string{"", "", "pong"}
	reply, err := retry.DoValue(context.Background(), retry.Config{}, func(context.Context) (string, error) {
		reply := replies[0]
		replies = replies[1:]
		if reply == "" {
			return "", errors.New("no answer")
		}
		return reply, nil
	})
	fmt.Println(reply, err)
	// Output: pong <nil>
}

// lost is the error of a store if another writer has changed the object.
type lost struct{}

func (lost) Error() string  { return "object was changed since it was read" }
func (lost) Conflict() bool { return true }

// Two writers count up one number. The loser of the race reads again.
func ExampleOnConflict() {
	stored, version := 41, 1
	put := func(n, readAt int) error {
		if readAt != version {
			return lost{}
		}
		stored, version = n, version+1
		return nil
	}

	raced := false
	err := retry.OnConflict(context.Background(), retry.DefaultRetry(), func(context.Context) error {
		n, readAt := stored, version
		if !raced {
			raced = true
			_ = put(stored+100, version) // another writer
		}
		return put(n+1, readAt)
	})
	fmt.Println(stored, err)
	// Output: 142 <nil>
}

// A server that says when to come back, as the header Retry-After does.
func ExampleAfter() {
	cfg := retry.Config{OnAttempt: func(_ context.Context, a retry.Attempt) { fmt.Println(a.Err, a.Delay) }}
	busy := true
	_ = retry.Do(context.Background(), cfg, func(context.Context) error {
		if busy {
			busy = false
			return retry.After(errors.New("429 Too Many Requests"), 3*time.Microsecond)
		}
		return nil
	})
	// Output:
	// 429 Too Many Requests 3µs
	// <nil> 0s
}

// A request that is wrong stays wrong.
func ExamplePermanent() {
	calls := 0
	err := retry.Do(context.Background(), retry.Config{}, func(context.Context) error {
		calls++
		return retry.Permanent(errors.New("400 Bad Request"))
	})
	fmt.Println(calls, err)
	// Output: 1 400 Bad Request
}

// A server that starts takes a while. That is no failure: a controller that gets this error comes back in a minute, or when an
// event tells of the server, and the backoff of the key does not grow.
func ExampleNotYet() {
	reconcile := func(running bool) error {
		if !running {
			return retry.NotYet(errors.New("the server starts"), time.Minute)
		}
		return nil
	}
	err := fmt.Errorf("berlin: %w", reconcile(false))
	d, _ := retry.Delay(err)
	fmt.Println(err, retry.IsNotYet(err), d)

	err = errors.Join(err, errors.New("no more addresses")) // a failure does not hide behind a wait
	fmt.Println(retry.IsNotYet(err))
	// Output:
	// berlin: the server starts true 1m0s
	// false
}
