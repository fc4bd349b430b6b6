package leasetest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
)

// shared is a store of which there can be several handles.
type shared struct{ leaderelect.LeaseStore }

func (s shared) Reopen(testing.TB) leaderelect.LeaseStore { return shared{s.LeaseStore} }

// What one handle has written, another one reads. With a Reopener the suite competes through two of them.
func ExampleReopener() {
	var s leasetest.Reopener = shared{leaderelect.NewMemoryStore()}
	_, err := s.Create(context.Background(), leaderelect.Entry{Key: "lease", Value: []byte("ann")})
	fmt.Println(err)
	e, err := s.Reopen(nil).Get(context.Background(), "lease")
	fmt.Println(string(e.Value), err)
	// Output:
	// <nil>
	// ann <nil>
}

// The suite is a test of the backend's own.
func ExampleRun() {
	test := func(t *testing.T) {
		leasetest.Run(t, func(*testing.T) leaderelect.LeaseStore { return shared{leaderelect.NewMemoryStore()} })
	}
	_ = test // go test runs it, as TestMyStoreIsALeaseStore
}
