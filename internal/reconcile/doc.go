// Package reconcile has what the context of a reconcile carries for other packages of the library, so that they need not know controllers:
//
//   - who calls ([CallerOf]): which key of which controller, in which attempt. A limiter reserves a place for a key that must come back.
//   - whom to report writes to ([BeginWrite]). With it, a controller learns what its caches must show before it reconciles a key again, and
//     which events its own writes have caused: the store reports, and the context of the reconcile listens.
//   - in a simulation, when a reconcile may begin ([WithPace]). A reconcile that makes no call of the simulation has no other place to wait.
//
// # Guarantees
//
//  1. Each attempt has a [Caller] of its own. Attempts for one key of one controller have equal IDs, and no others have.
//  2. A function of [Caller.OnEnd] is called once: when the attempt has ended, or at once if it has already ended.
//  3. Without a listener, BeginWrite and ReportWrite read the context and do nothing else.
//  4. Without a function of WithPace, a controller looks at the context once in each Run and does nothing else.
package reconcile
