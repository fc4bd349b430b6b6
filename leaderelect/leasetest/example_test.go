package leasetest_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// The suite is a test of the backend's own. What it can do to the backend is up to that; the rest is skipped.
func ExampleRun() {
	test := func(t *testing.T) {
		leasetest.Run(t, func(*testing.T) leasetest.Backend {
			s := memlease.New()
			return leasetest.Backend{Store: s, Delete: s.Delete}
		})
	}
	_ = test // go test runs it, as TestMyLeaseStore
}
