// Package balancer spreads TCP connections over backends that come and go.
//
// # Usage
//
//	b, err := balancer.Listen("127.0.0.1:8001", balancer.Config{})
//	b.SetBackends([]string{"127.0.0.1:34567", "127.0.0.1:34568"}) // at any time
//	err = b.Close(ctx)                                            // drains until ctx ends
//
// A [Set] has one balancer per name and follows a desired state: [Set.Ensure] and [Set.Remove] can be called again and
// again.
//
// # Guarantees
//
//  1. Connections go to the backends in turn. A backend that cannot be dialed is skipped: a new connection tries each
//     backend once, beginning with the one whose turn it is. When none can be had, the client's connection is closed.
//  2. SetBackends is for connections accepted from then on. An open connection stays with its backend.
//  3. A backend that was taken out, and of which [Balancer.Busy] says no, has no connection and gets none: neither one that
//     is being dialed nor one that was accepted before. Wait for that before you stop a backend.
//  4. Each side's end of sending is passed on to the other side, which may go on sending. When either side breaks, both
//     are closed.
//  5. A balancer that changes its port serves on the new one before it leaves the old one. Balancers of one Set that
//     swap ports get there when each is asked again.
//
// # Shutdown
//
// A balancer has one goroutine that accepts, and two per open connection. Close returns when all have ended. It takes
// no more connections at once, and cuts those that are still open when its context ends. A TCP balancer does not know
// which connections are idle: a client that keeps one open for later use is cut.
//
// # Testing
//
// Listen on 127.0.0.1:0 and ask Addr.
package balancer
