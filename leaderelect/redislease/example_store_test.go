package redislease_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
)

// Any client that can run a script works. This one has no server.
func ExampleFunc() {
	var client redislease.Client = redislease.Func(
		func(_ context.Context, _ string, keys []string, _ ...any) (any, error) {
			fmt.Println("EVAL", keys)
			return int64(1), nil // as rdb.Eval(ctx, script, keys, args...).Result() of go-redis
		})
	leases := redislease.New(client, redislease.Config{Prefix: "{shop}"})
	var s leaderelect.LeaseStore = leases
	e, err := s.Create(context.Background(), leaderelect.Entry{Key: "controller", Term: 1})
	fmt.Println(e.Key, e.Term, err)
	// Output:
	// EVAL [{shop}:controller {shop}]
	// controller 1 <nil>
}

// A store uses the client of your program.
func ExampleStore() {
	ctx := context.Background()
	s := redislease.New(newModel(), redislease.Config{})
	_, err := s.Create(ctx, leaderelect.Entry{Key: "controller", Value: []byte("ann"), Term: 1})
	fmt.Println(err)
	e, err := s.Get(ctx, "controller")
	fmt.Println(string(e.Value), err)
	// Output:
	// <nil>
	// ann <nil>
}
