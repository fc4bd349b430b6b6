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
//  2. The suite waits at most [Patience] for an expected event. Apart from polls, it sleeps only for Idle, before Restart, while the network
//     drops everything, while the consumer of a watch is slow, and while it checks that a call, a session, or a takeover does not end.
//  3. The suite checks every method with every definite error; versions that change with every write and are never
//     reused, whichever handle writes; races between writers of one key and of several, through two handles if Reopen is set;
//     reads that do not go back behind any record that the same store has returned; calls whose context has ended or whose
//     deadline has passed, or ends meanwhile; errors that are marked as permanent; keys and values of any bytes; keys, values, and
//     terms that are too large, which a store refuses or stores whole; copies of values; List, also of more than a thousand records;
//     and Watch: its first state, order, last state, changes of other handles, before and in the body of the loop, several watches
//     at once, a slow consumer, deletions, and end. A read through one handle may lag behind a write through another.
//  4. If Sessions is set, the suite checks who holds a session, who learns of its end, and when: within five seconds.
//  5. If the backend can be made to fail, the suite also checks records that do not expire; versions and floors after a
//     deletion by hand; calls in a network that drops everything, beside other such calls, and beside a writer that keeps its lock;
//     writes whose reply is lost; a server that is killed and restarted; watches after an outage; and guarded writes of terms that are
//     over.
//
// The suite cannot check failures of several machines, such as the failover of a server to its replica.
package leasetest
