package memlease_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// If two electors have read the same version of a record, one of them can replace it.
func ExampleStore() {
	ctx := context.Background()
	var s leaderelect.LeaseStore = memlease.New()
	first, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("nobody"), Term: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, who := range []string{"ann", "bob"} {
		next := first // both have read this version
		next.Value, next.Term = []byte(who), first.Term+1
		_, err := s.Update(ctx, next)
		fmt.Println(who, "conflict:", errors.Is(err, leaderelect.ErrConflict))
	}
	got, err := s.Get(ctx, "lease")
	fmt.Printf("%s in term %d %v\n", got.Value, got.Term, err)
	// Output:
	// ann conflict: false
	// bob conflict: true
	// ann in term 2 <nil>
}

// A test can make the store lose a reply: the write has happened, and the caller does not know.
func ExampleFaults() {
	ctx := context.Background()
	s := memlease.New()
	s.Inject(memlease.Faults{After: func(_ context.Context, c memlease.Call) error {
		if c.Op == "create" {
			return errors.New("connection reset")
		}
		return nil
	}})
	_, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("ann")})
	fmt.Println(err)
	e, err := s.Get(ctx, "lease")
	fmt.Println(string(e.Value), err)
	// Output:
	// memlease: create "lease": connection reset
	// ann <nil>
}

// The functions of Faults receive the call.
func ExampleCall() {
	s := memlease.New()
	s.Inject(memlease.Faults{Before: func(_ context.Context, c memlease.Call) error {
		fmt.Println(c.Op, c.Key)
		return nil
	}})
	_, err := s.Get(context.Background(), "lease")
	fmt.Println(errors.Is(err, leaderelect.ErrNotFound))
	// Output:
	// get lease
	// true
}
