// Package replica is the program that webapp keeps alive: a small HTTP server in one operating-system process.
//
// # Usage
//
// Package main calls [Main] when its first argument is "replica". A machine starts it. It can also be started by hand:
//
//	webapp replica -id blue-1 -app blue -message "hello"
//
// It listens on a free port of 127.0.0.1. GET / returns the message and a line with app, id, and pid. GET /healthz returns
// its id, which tells a prober that it talks to the intended replica, and not to a later owner of the port.
//
// # Guarantees
//
//  1. With -record N, file descriptor N is the replica's record. The replica holds an exclusive flock on it from before
//     it listens until its process is dead, however it dies. If another process holds a lock, that is an error.
//  2. It appends one line to the record, {"pid":1,"port":2}, after it has begun to listen. So a reader of the port can
//     connect to it.
//  3. No child of the replica inherits the record.
//  4. SIGTERM and SIGINT end it: it stops accepting connections, gives the requests in flight two seconds, cuts those that
//     are left, and exits with status 0. Before you send the signal, wait until the load balancer in front of it sends no more
//     connections: a replica cannot know of connections that are still being opened.
//  5. If its record is removed while it is alive, which no machine does, it ends in the same way. Otherwise it would
//     live forever, because no machine could find it.
//
// # Shutdown
//
// Main returns the exit status. Its serving goroutine has ended by then.
//
// # Testing
//
// A test binary can be the replica: TestMain calls Main if the first argument is "replica".
package replica
