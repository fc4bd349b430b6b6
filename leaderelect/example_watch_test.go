package leaderelect_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// A watch begins with the current record.
func ExampleWatcher() {
	ctx := context.Background()
	s := memlease.New()
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
