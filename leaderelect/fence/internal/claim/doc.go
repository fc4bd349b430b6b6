// Package claim is what packages fencehttp and fencegrpc share: how a client states its lease and its term in a request, when it may
// send one, and what a server does with it.
//
// # Guarantees
//
//  1. The text of a lease has only visible ASCII characters and no comma, and [Parse] returns the lease that [Text] was given, for any
//     lease that is neither empty nor longer than a store permits. A header that was sent twice or joined is malformed.
//
//  2. [Of] returns the fence of writes to a store under the same context.
//
//  3. [Claim.Err] reads the clock of the leadership. A context of [Claim.Bind] ends with the leadership, or with its parent.
//
//  4. [Guards.Admit] decides by this table, from left to right. "Bars" means that lower terms of the lease are refused from then on:
//
//     request  no term  malformed  another lease's  a lease too many  term is stale  else
//     safe     served   refused    served           refused           refused        bars, waits for work of lower terms, is served
//     other    refused  refused    refused          refused           refused        the same, and greater terms wait for it
package claim
