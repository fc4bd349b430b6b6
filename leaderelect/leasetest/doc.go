// Package leasetest is the suite that every leaderelect.LeaseStore has to pass.
//
// # Usage
//
// In a test of the backend, say how to make an empty store, and run it:
//
//	func TestRedisIsALeaseStore(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) leasetest.Backend {
//			server := start(t) // stopped by t.Cleanup
//			return leasetest.Backend{
//				Store:   open(t, server),
//				Reopen:  func() leaderelect.LeaseStore { return open(t, server) },
//				Restart: server.Restart,
//			}
//		})
//	}
//
// # Guarantees
//
//  1. Each case is a subtest with a backend of its own. A failure says which sentence of the contract of
//     leaderelect.LeaseStore does not hold. A case that is skipped says what the backend would have to provide for it.
//  2. The suite gives up after [Patience] on what has to come. It sleeps only in cases about faults: for Idle, and for as
//     long as a call, or a takeover, may not return.
//  3. What passes is checked for: every method with every definite error; versions that change with every write and never
//     come back; races between writers, through two handles if there is Reopen; reads that do not go back; calls whose
//     context has ended; keys and values of any bytes; terms; copies of values; List; and Watch: what it begins with,
//     order, the last state, deletions, its end.
//  4. As far as the backend can be made to fail, it is also checked for: records that do not expire; versions and floors
//     after a deletion by hand; calls in a network that drops everything; writes whose reply is lost; a server that is
//     killed and started; guarded writes of terms that are over.
//
// What it cannot check is what takes more than one machine, such as the failover of a server to its replica.
package leasetest
