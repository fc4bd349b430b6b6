// Package gate limits calls to a service: a [Limiter] by their rate, a [Breaker] while the service fails. A gate never makes the
// caller wait. A call that may not happen now fails at once with an error of [retry.NotYet], which says when to come back. So no
// worker is held, no attempt is counted, and no key is parked because an API is busy.
//
// # Usage
//
//	limiter := gate.NewLimiter(10, 5) // 10 calls a second, 5 at once
//	client := &http.Client{Transport: limiter.Transport(nil)}
//
// A reconcile returns the error of the client, wrapped or not, and the controller comes back in time. For calls that do not use
// HTTP there is [Limiter.Do]. Controllers that call the same service share its gate.
//
// # Places
//
// A refused caller gets a place in line, and the error names the time of the place. Places are as far apart as the rate allows,
// so callers do not all come back at the same time. Within a reconcile, the limiter knows the key by the context, and keeps its
// place. No later caller gets in before it. The key gets in when its time has come, even if it comes a little late. If an
// event brings the key back early, the key keeps its place.
//
// If a reconcile makes several calls, the limiter may refuse one in the middle, and the reconcile starts again from the
// beginning. Its new place has room for twice the calls that it has made, up to the burst. So it gets further each time. Choose
// a burst of at least the number of calls of one reconcile, or put all of them into one [Limiter.Do].
//
// A place is dropped ten seconds after its time if its key has not come back. Then other callers may use its calls. So a deleted
// key does not waste its place.
//
// Outside of a reconcile, the limiter cannot distinguish callers. It gives them different times, so that they do not come back
// together, but no places.
//
// # Guarantees
//
//  1. In any time t, a Limiter lets at most burst + t * perSecond calls through.
//  2. Do never waits. It calls its function at once, or returns an error for which [retry.IsNotYet] is true, with a positive
//     delay. If the context has ended, Do returns its cause instead.
//  3. Keys of controllers get in first come, first served, except for keys that come back late.
//  4. All keys get through, however many there are, and however many calls up to the burst each of them makes.
//  5. A Limiter uses memory only for keys that have a place.
//  6. A Retry-After of a 429 or 503 holds for all callers of the Transport. Whatever it says, they come back within an hour.
//  7. An open [Breaker] lets nothing through, and a half-open one lets one call through at a time.
//
// # Testing
//
// All time comes from package time, so it is fake in a testing/synctest bubble.
package gate
