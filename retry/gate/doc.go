// Package gate limits calls to a service. A [Limiter] limits their rate, and a [Breaker] refuses them while the service fails. A gate never
// makes the caller wait. A call that may not be made now fails at once with an error of [retry.NotYet], which says when to retry. So a busy
// API blocks no worker, costs no attempt, and parks no key.
//
// # Usage
//
//	limiter := gate.NewLimiter(10, 5) // 10 calls a second, 5 at once
//	client := &http.Client{Transport: limiter.Transport(nil)}
//
// A reconcile returns the error of the client, wrapped or not, and the controller retries at the right time. For calls that do not use HTTP
// there is [Limiter.Do]. Controllers that call the same service share its gate.
//
// # Places
//
// A refused caller gets a place in line, and the error names the time of the place. Places are as far apart as the rate allows, so callers
// do not all come back at the same time. Within a reconcile, the limiter learns the key from the context, and keeps its place. No later
// caller gets in before the time of the place. The key gets in at its time, even if it comes back slightly late. If it comes back so late
// that later places have used its calls, it is refused again, and keeps its place. If an event brings the key back early, the key keeps its
// place too.
//
// If a reconcile makes several calls, the limiter may refuse one in the middle, and the reconcile starts again from the beginning. Its new
// place has room for twice the calls that it has made, up to the burst. So each attempt gets further. Choose a burst of at least the number
// of calls of one reconcile, or put all of them into one [Limiter.Do].
//
// A place is dropped ten seconds after its time if its key has not got in, and ten seconds after the last call of its reconcile if that
// makes no other, and when that reconcile ends. Then other callers may use its calls. So neither a deleted key nor a reconcile that hangs
// wastes its place. The time of a Retry-After does not count.
//
// Outside a reconcile, the limiter cannot distinguish callers. It gives them different times, spread over up to a minute, so that they do
// not come back together, but no places.
//
// # Guarantees
//
//  1. In any time t, a Limiter lets at most burst + t * perSecond calls through.
//  2. Do never waits. It calls its function at once, or returns an error for which [retry.IsNotYet] is true, with a positive
//     delay. If the context has ended, Do returns an error that wraps its cause instead.
//  3. Keys of controllers get in first come, first served, except for keys that come back late.
//  4. All keys get through eventually, however many there are, if no reconcile makes more calls than the burst, or waits for ten seconds
//     before its next call, and if no key always comes back many seconds after its time.
//  5. A Limiter uses memory only for keys that have a place.
//  6. The Retry-After of a 429 or 503 applies to all callers of the Transport, but for at most an hour.
//  7. An open [Breaker] lets nothing through. A half-open one lets one call through at a time, or one per OpenFor if calls do not return.
//
// # Testing
//
// All time comes from package time, so it is fake in a testing/synctest bubble.
package gate
