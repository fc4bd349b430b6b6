// Package replica is the program that webapp keeps alive: a small HTTP server, one operating-system process each.
//
// # Usage
//
// Package main calls [Main] when its first argument is "replica". A machine starts it; by hand it runs as well:
//
//	webapp replica -id blue-1 -app blue -message "hello"
//
// It listens on a free port of 127.0.0.1. GET / answers the message and a line with app, id and pid. GET /healthz
// answers its id, so that a prober knows that it talks to the replica that it means, and not to a later owner of
// the port.
//
// # Guarantees
//
//  1. With -record N, file descriptor N is the replica's record. The replica holds an exclusive flock on it from
//     before it listens until its process is dead, however it dies. A lock that somebody else holds is an error.
//  2. It appends one line to the record, {"pid":1,"port":2}, after it has begun to listen. So a
//     reader of the port can connect to it.
//  3. No child of the replica would inherit the record.
//  4. SIGTERM and SIGINT end it: it takes no more connections, finishes the requests in flight within two seconds, and exits
//     with status 0. Before you send the signal, wait until the load balancer in front of it sends no more connections: a
//     replica cannot know of connections that are on their way.
//  5. When its record is removed while it is alive, which no machine does, it ends in the same way. Otherwise it would live
//     forever, because no machine could find it.
//
// # Shutdown
//
// Main returns the exit status. The goroutine that serves has ended by then.
//
// # Testing
//
// A test binary can be the replica: TestMain calls Main when the first argument says so.
package replica
