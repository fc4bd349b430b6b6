package gate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/retry/gate"
)

// Two calls at once, and then one per second. A reconcile returns the error, and its key comes back at the right time.
func ExampleLimiter() {
	limiter := gate.NewLimiter(1, 2)
	for range 3 {
		err := limiter.Do(context.Background(), func(context.Context) error {
			fmt.Println("called")
			return nil
		})
		if retry.IsNotYet(err) {
			d, _ := retry.Delay(err)
			fmt.Println("not yet, again in", d.Round(time.Second))
		}
	}
	// Output:
	// called
	// called
	// not yet, again in 1s
}

// busy is a server that asks to be left alone.
type busy struct{}

func (busy) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 429, Status: "429 Too Many Requests", Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody}, nil
}

// An http.Client needs no other code: a limit that is reached, and a server that is busy, are errors of retry.NotYet.
func ExampleLimiter_Transport() {
	client := &http.Client{Transport: gate.NewLimiter(10, 5).Transport(busy{})}
	_, err := client.Get("http://api.example/sites")
	d, _ := retry.Delay(err)
	fmt.Println(retry.IsNotYet(err), d)
	// Output: true 1m0s
}

// Controllers that call one API share a breaker. When the API is down, they leave it alone for a while.
func ExampleBreaker() {
	breaker, err := gate.NewBreaker(gate.BreakerConfig{
		Name: "dns", Failures: 2, OpenFor: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		err := breaker.Do(context.Background(), func(context.Context) error { return errors.New("no route to host") })
		fmt.Println(err, retry.IsNotYet(err))
	}
	// Output:
	// no route to host false
	// no route to host false
	// gate: the circuit breaker "dns" is open true
}
