package leasetest

import (
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Reopener is a LeaseStore of which the suite can have a second handle.
type Reopener interface {
	leaderelect.LeaseStore

	// Reopen returns another store that has the same records, as another process would open it.
	Reopen(t testing.TB) leaderelect.LeaseStore
}

// Run runs every case as a subtest of t. newStore returns an empty store, and cleans up with t.Cleanup.
func Run(t *testing.T, newStore func(t *testing.T) leaderelect.LeaseStore) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.test(t, newStore(t)) })
	}
}

// testCase is a sentence of the contract, and a test that fails where it does not hold. It takes a testing.TB so that
// the suite can be tested with stores that are broken.
type testCase struct {
	name string
	test func(t testing.TB, s leaderelect.LeaseStore)
}

// cases returns the whole suite.
func cases() []testCase {
	var all []testCase
	all = append(all, registerCases...)
	all = append(all, raceCases...)
	all = append(all, contextCases...)
	return append(all, dataCases...)
}
