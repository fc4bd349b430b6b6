// Package gate limits calls to a service: a [Limiter] by their rate, a [Breaker] while the service fails. A gate never makes the
// caller wait. A call that may not happen now fails at once with an error of [retry.NotYet], which says when to come back. So no
// worker is held, no attempt is counted, and no key is parked because an API is busy.
//
// # Usage
//
//	limiter := gate.NewLimiter(10, 5) // 10 calls a second, 5 at once
//	client := &http.Client{Transport: limiter.Transport(nil)}
//
// A reconcile returns the error of the client, wrapped or not, and the controller comes back in time. For calls that are no
// HTTP there is [Limiter.Do]. Controllers that call the same service share its gate.
//
// # Who is next
//
// A caller that is refused gets a place in line, and the error names its time. Places are as far apart as the rate allows, so
// that those who come back do not come together. A limiter knows a key of a controller by the context of its reconcile. It keeps
// the place: nobody who comes later gets in before, and the key gets in when its time has come, even if it comes a little late.
// An event that brings the key back early does not cost it the place.
//
// A reconcile that makes several calls may be refused in the middle, and then it starts again from the beginning. Its place has
// room for twice the calls that it has made, up to the burst. So it gets further each time. Choose a burst of at least the number
// of calls of one reconcile, or put all of them into one [Limiter.Do].
//
// A place that nobody takes within ten seconds of its time is given up, and its calls are free for others. So places of keys that
// were deleted meanwhile are not all wasted.
//
// Outside of a reconcile nothing tells one caller from another. Such callers get different times, so that they do not come back
// together, but no places.
//
// # Guarantees
//
//  1. In any time t a Limiter lets at most burst + t * perSecond calls through.
//  2. Do never waits. It calls its function at once, or returns an error for which [retry.IsNotYet] is true, with a positive
//     delay. An ended context is neither: Do returns its cause.
//  3. Keys of controllers get in first come, first served, but for a key that comes back late.
//  4. However many keys there are, and however many calls up to the burst each of them makes, all get through.
//  5. A Limiter keeps something only of keys that have a place.
//  6. A Retry-After of 429 or 503 holds for all callers of the Transport. Whatever it says, they come back within an hour.
//  7. An open [Breaker] lets nothing through, and a half-open one a single call at a time.
//
// # Testing
//
// Time is that of package time, so that a test in a bubble of testing/synctest decides it.
package gate
