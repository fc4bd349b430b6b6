package leaderelect_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// A watch begins with the record as it is.
func ExampleWatcher() {
	ctx := context.Background()
	s := leaderelect.NewMemoryStore()
	var w leaderelect.Watcher = s
	for e, err := range w.Watch(ctx, "lease") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("version %q: %q\n", e.Version, e.Value)
		if e.Version != "" {
			return
		}
		_, err = s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("ann")})
		fmt.Println(err)
	}
	// Output:
	// version "": ""
	// <nil>
	// version "1": "ann"
}

// Many records are read at once.
func ExampleLister() {
	ctx := context.Background()
	s := leaderelect.NewMemoryStore()
	for _, key := range []string{"shards/1", "jobs/1", "shards/0"} {
		_, _ = s.Create(ctx, leaderelect.Entry{Key: key, Value: []byte("of " + key)})
	}
	var l leaderelect.Lister = s
	list, err := l.List(ctx, "shards/")
	for _, e := range list {
		fmt.Printf("%s: %s\n", e.Key, e.Value)
	}
	fmt.Println(err)
	// Output:
	// shards/0: of shards/0
	// shards/1: of shards/1
	// <nil>
}

// A test of one's own can have the store lose a reply: the write has happened, and the caller does not know.
func ExampleFaults() {
	ctx := context.Background()
	s := leaderelect.NewMemoryStore()
	s.Inject(leaderelect.Faults{After: func(_ context.Context, c leaderelect.Call) error {
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
	// leaderelect: create "lease": connection reset
	// ann <nil>
}

// A function of Faults learns which call it is.
func ExampleCall() {
	s := leaderelect.NewMemoryStore()
	s.Inject(leaderelect.Faults{Before: func(_ context.Context, c leaderelect.Call) error {
		fmt.Println(c.Op, c.Key)
		return nil
	}})
	_, err := s.Get(context.Background(), "lease")
	fmt.Println(errors.Is(err, leaderelect.ErrNotFound))
	// Output:
	// get lease
	// true
}
