// Package fencegrpc fences over gRPC, at both ends, as package fencehttp does over HTTP. It is a module of its own.
//
// # Usage
//
// The leader's calls go through the interceptors of a [Client], under the context of the leader:
//
//	var leader fencegrpc.Client
//	conn, err := grpc.NewClient(target, grpc.WithChainUnaryInterceptor(leader.Unary), grpc.WithChainStreamInterceptor(leader.Stream))
//
// The service has those of a [Server], after authentication:
//
//	server, err := fencegrpc.NewServer(fencegrpc.ServerConfig{
//		Lease: func(context.Context, string) string { return "shop-controller" }, // whose leader may change something here
//	})
//	...
//	grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, server.Unary), grpc.ChainStreamInterceptor(authenticateStream, server.Stream))
//
// If a call is stale, its error is a *fence.StaleError, and a controller leaves the key to the next leader.
//
// # Guarantees
//
// A method is safe if it only reads: if its idempotency_level is NO_SIDE_EFFECTS in the .proto file, or if the Safe function says so.
//
// Of a [Client]:
//
//  1. A call of a leadership that is over is not sent, by the clock (leaderelect.Leadership.Err), even if its method is safe.
//  2. A call in flight is canceled when the leadership ends: a stream until it has ended. The server may have done it. A call that its own
//     caller has canceled keeps its own error. Each message of a stream is a write of its own, which 1 applies to.
//  3. Each call of a leader carries its lease and its term: those that writes to a store under the same context carry.
//  4. Without a leadership, only safe methods are called, unless Unfenced is set or the context is one of store.Unfenced of a leader's
//     context. Other calls fail with [ErrNoLeadership].
//
// Of a [Server], for each lease:
//
//  5. The terms of the calls that it serves never decrease. A stale call is refused.
//  6. A call that is not safe begins after the handlers of all lower terms have returned.
//  7. A client that is suspended, or slow, delays no successor. A unary request arrives before its work begins, and its response is sent after
//     it. If a greater term is seen, the context of a stream ends, and RecvMsg and SendMsg return, even if the client does nothing. The
//     successor waits until the handler has returned.
//  8. A safe call without a term, or with one of another lease, is served like any other read. With a term of the lease, it bars lower terms
//     and begins after their handlers have returned, but delays no successor.
//  9. Under the context of the handler, writes to a store and calls through a Client carry the client's lease and term. If a write is
//     refused because of its term, and the handler returns that error, the client gets a *fence.StaleError.
//  10. A refused call does not reach the handler.
//
// # Refusals
//
// The metadata has the keys leader-lease, percent-encoded where necessary, and leader-term, a decimal number. Each refusal has an ErrorInfo
// (google.rpc) of the domain github.com/setpoint-go/setpoint:
//
//	code                reason            why
//	FailedPrecondition  STALE             the term is stale; the metadata of the ErrorInfo has lease, term, and have
//	InvalidArgument     MISSING           there is no term
//	InvalidArgument     MALFORMED         a key is malformed, or has several values
//	PermissionDenied    OTHER_LEASE       the term is of another lease than the method
//	ResourceExhausted   TOO_MANY_LEASES   see ServerConfig.MaxLeases
//	Canceled, DeadlineExceeded            the context ended while the call waited for work of lower terms
//
// # Traps
//
// They are those of package fencehttp. A term is a claim: authenticate. A guard is empty after a restart: raise it. Several replicas are fenced by
// their database. Also:
//
//   - The services for health checks and reflection do not mark their methods. Name them in ServerConfig.Safe.
//   - The handler of a stream must return soon after its context has ended, or after RecvMsg or SendMsg has returned an error.
//     A message that was given to them then may not be used again.
package fencegrpc
