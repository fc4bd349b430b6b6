// Package leasetest is a conformance suite for every leaderelect.LeaseStore.
//
// # Usage
//
// In a test of your backend, pass a function that returns an empty store:
//
//	func TestRedisLeaseStore(t *testing.T) {
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
//  1. Each case is a subtest with its own backend. A failure names the sentence of the contract of leaderelect.LeaseStore
//     that does not hold. A case that is skipped names the field of [Backend], or the interface, that it needs.
//  2. The suite waits at most [Patience] for an expected event. Apart from polls, it sleeps only in cases about faults: for
//     Idle, before Restart, and while it checks that a call or a takeover does not return.
//  3. The suite checks every method with every definite error; versions that change with every write and are never
//     reused; races between writers, through two handles if Reopen is set; reads that do not go back; calls whose context
//     has ended; keys and values of any bytes; terms; copies of values; List; and Watch: its first state, order, last
//     state, deletions, and end.
//  4. If the backend can be made to fail, the suite also checks records that do not expire; versions and floors after a
//     deletion by hand; calls in a network that drops everything, and beside a writer that keeps its lock; writes whose reply is
//     lost; a server that is killed and restarted; and guarded writes of terms that are over.
//
// The suite cannot check failures of several machines, such as the failover of a server to its replica.
package leasetest
