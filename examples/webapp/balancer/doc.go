// Package balancer spreads TCP connections over backends that come and go.
//
// # Usage
//
//	b, err := balancer.Listen("127.0.0.1:8001", balancer.Config{})
//	b.SetBackends([]string{"127.0.0.1:34567", "127.0.0.1:34568"}) // at any time
//	err = b.Close(ctx)                                            // drains until ctx ends
//
// A [Set] has one balancer per name and follows a desired state: [Set.Ensure] and [Set.Remove] may be called repeatedly.
//
// # Guarantees
//
//  1. Connections go to the backends in turn. A backend that cannot be dialed is skipped: a new connection tries each
//     backend once, beginning with the one whose turn it is. If all fail, the client's connection is closed.
//  2. SetBackends affects every connection that has no backend yet, even one that was accepted before. A connection that
//     has a backend stays with it.
//  3. A backend that was removed, and for which [Balancer.Busy] returns false, has no connection and gets none: neither
//     one that is being dialed nor one that was accepted before. Wait for that before you stop a backend.
//  4. If one side ends its sending, that is passed on to the other side, which may continue to send. If either side
//     breaks, both are closed.
//  5. A balancer of a Set that changes its port serves on the new one before it leaves the old one, unless another
//     balancer of the Set still has the new one. Two balancers that swap ports succeed after Ensure was called again
//     for each.
//
// # Shutdown
//
// A balancer has one goroutine that accepts, and at most two per open connection. Close stops accepting at once, cuts the
// connections that are still open when its context ends, and returns when all goroutines have ended. A TCP balancer does
// not know which connections are idle: a client that keeps one open for later use is cut.
//
// # Testing
//
// Listen on 127.0.0.1:0 and call Addr.
package balancer
