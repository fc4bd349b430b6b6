// Package leasetest is the suite that every leaderelect.LeaseStore has to pass.
//
// # Usage
//
// In a test of the backend, say how to make an empty store, and run it:
//
//	func TestRedisIsALeaseStore(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) leaderelect.LeaseStore {
//			return openEmpty(t) // closed by t.Cleanup
//		})
//	}
//
// A store that outlives its process should be a [Reopener] too.
//
// # Guarantees
//
//  1. Each case is a subtest with a store of its own. A failure says which sentence of the contract of
//     leaderelect.LeaseStore does not hold.
//  2. The suite never sleeps.
//  3. What passes is checked for: every method with every definite error; versions that change with every write and never
//     come back; races between writers, through two handles if there is a Reopener; calls whose context has ended;
//     keys and values of any bytes; terms; copies of values.
//
// What it cannot check needs time, a crash or a broken network: that a record does not expire, that an acknowledged write
// survives, that a call in a network that drops everything returns soon after its context has ended, and that an error
// after which the write may have happened is not a definite one. Tests of a backend do that themselves.
package leasetest
