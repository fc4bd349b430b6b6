// Package fencehttp fences over HTTP, at both ends. The client of a leader sends the leader's term along, and sends nothing once the
// leadership is over. The server refuses requests of former leaders.
//
// # Usage
//
// The leader's requests go through a [Transport], under the context of the leader:
//
//	client := &http.Client{Transport: &fencehttp.Transport{}}
//	...
//	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body) // ctx is that of OnStartedLeading, or of Reconcile
//	resp, err := client.Do(req)
//	if err != nil {
//		return err
//	}
//	defer resp.Body.Close()
//	if err := fencehttp.Check(resp); err != nil {
//		return err // a later leader has called: the controller does not retry
//	}
//
// The service wraps its handlers in a [Server], after authentication:
//
//	server, err := fencehttp.NewServer(fencehttp.ServerConfig{
//		Lease: func(*http.Request) string { return "shop-controller" }, // whose leader may change something here
//	})
//	...
//	http.Handle("/", authenticated(server.Wrap(handler)))
//
// docs/leaderelection.md compares what each half protects by itself. Package fencegrpc does the same for gRPC.
//
// # Guarantees
//
// Of a [Transport]:
//
//  1. A request of a leadership that is over is not sent, whatever its method. The Transport reads the clock
//     (leaderelect.Leadership.Err), so this also holds right after the process was suspended. The body is closed. The error wraps the
//     reason, such as leaderelect.ErrLeaseExpired, and a controller leaves the key to the next leader.
//  2. A request in flight is canceled when the leadership ends, until the body of its response was read to the end or closed. Nothing more
//     of the request's body is read. The error is as in 1, but the server may have done the request. A request that its own caller has
//     canceled keeps its own error.
//  3. Each request of a leader carries its lease and its term: those that writes to a store under the same context carry. The caller's
//     request is not changed.
//  4. Without a leadership, only safe requests are sent (GET, HEAD, OPTIONS, and TRACE), unless Unfenced is set or the context is one of
//     store.Unfenced of a leader's context. Other requests fail with [ErrNoLeadership].
//
// Of a [Server], for each lease:
//
//  5. The terms of the requests that it serves never decrease. A stale request is refused. A term counts from the moment its headers
//     have arrived, even if the request is refused for another reason later.
//  6. A request that is not safe begins after the handlers of all lower terms have returned. So two leaders never work in the service at
//     the same time.
//  7. A client that is suspended, or slow, delays no successor. Its request counts as work only after its body has arrived, and its
//     response is sent after the work, if it is at most 1 MiB and the handler does not flush it.
//  8. A safe request without a term, or with one of another lease, is served like any other read. With a term of the lease, it bars lower
//     terms and begins after their handlers have returned, but delays no successor. So no former leader changes what a leader has
//     read.
//  9. Under the context of the handler, writes to a store and requests through a Transport carry the client's lease and term.
//  10. A refused request does not reach the handler.
//
// # Refusals
//
// A refusal is a problem document (application/problem+json, RFC 9457) with a detail for people. If the term is stale, it has the members
// lease, term, and have, and the response has the headers Leader-Lease and Leader-Term: the greatest term that was seen. A 412 of a
// handler, such as for If-Match, has no Leader-Term.
//
//	400 Bad Request               a header is malformed or sent twice, or the body was cut off
//	403 Forbidden                 the term is of another lease than the route
//	412 Precondition Failed       the term is stale (RFC 9110, section 13); checked before If-Match
//	413 Content Too Large         the body is larger than MaxBody
//	428 Precondition Required     a header is missing (RFC 6585)
//	503 Service Unavailable       too many leases, or the request was canceled while it waited for work of lower terms
//
// Leader-Term is a decimal number of up to 20 digits. Leader-Lease is the key of the lease, percent-encoded where a header needs it.
//
// # Traps
//
//   - A term is a claim. Whoever may send Leader-Term: 18446744073709551615 bars every leader. Authenticate before the Server, and let
//     ServerConfig.Lease return the one lease whose leader this caller may be.
//   - A guard is in memory: it is empty after a restart. Raise it first, as in the second example, unless all effects are writes to a store.
//   - A Server knows the requests of its own process. If the service has several replicas, their database fences them: let each handler
//     write to one store under its context, or pass the term of store.FenceFrom to your own transaction (sqllease, redislease). The Server
//     is then only the first line.
//   - One Server has one guard for each lease. If two Servers wrap routes of one service, they do not know each other's terms.
//   - A handler that changes something in a GET is not fenced.
//   - A Transport alone cannot stop a request that was sent before the process was suspended. Only a Server can.
//   - Goroutines that a handler leaves behind are not part of its work.
//
// # Testing
//
// leaderelect.Appoint makes a leader without an election. Everything works in a testing/synctest bubble, with connections of net.Pipe.
package fencehttp
