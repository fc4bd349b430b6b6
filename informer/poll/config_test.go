package poll_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/setpoint-go/setpoint/informer/poll"
)

func TestNaNJitterIsRejected(t *testing.T) {
	list := func(context.Context) ([]site, error) { return nil, nil }
	for want, jitter := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1)} {
		_, err := poll.New(list, nameOf, poll.Config[site]{Jitter: jitter})
		if got, want := fmt.Sprint(err), "poll: new source: Config.Jitter is "+want+", must be a number"; got != want {
			t.Fatalf("err = %q, want %q", got, want)
		}
	}
	_, err := poll.New(list, nameOf, poll.Config[site]{Jitter: -1, Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNewPanicsWithoutListOrKeyFunc(t *testing.T) {
	list := func(context.Context) ([]site, error) { return nil, nil }
	if panicOf(func() { must(poll.New(nil, nameOf, poll.Config[site]{})) }) == nil {
		t.Error("no panic")
	}
	if panicOf(func() { must(poll.New[string](list, nil, poll.Config[site]{})) }) == nil {
		t.Error("no panic")
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
