// Package fencetest plays random schedules of leaders that call services, and checks the guarantees that packages fencehttp and fencegrpc
// have in common. Each of them brings a [Protocol].
//
// Three processes take turns as the leader of the lease "shop" and call two services through real clients and servers. A process may be
// suspended at any byte that it sends or reads, and between the pieces of a request; then it does not notice that it has lost the lease. The
// network delays what was sent before. A service may end and begin again, with its guards raised from the lease. Each service has a value of
// its own, both write to one store, and one of them passes calls on to the other. Callers cancel calls. Strangers call without a claim, with a
// malformed one, with that of another lease, or with the greatest term and without authentication.
//
// # Guarantees
//
//  1. A schedule takes its random numbers from its seed. Goroutines that are ready at the same time may ask in another order.
//  2. A fault names the call, and the guarantee of package fencegrpc that does not hold. Those of package fencehttp have the same numbers.
//  3. [Run] fails if no schedule has something that it should have.
package fencetest
