// Package dispatch limits how fast a queue dispatches its keys.
//
// # Usage
//
// The lock of the queue guards the [Limit]. A worker asks before it takes a key, and only if there is a key to take:
//
//	limit := dispatch.New(limiter, func() { /* wake a worker, which asks again */ })
//	if limit.Allow(time.Now()) { /* take a key */ }
//
// # Guarantees
//
//  1. Each Allow that returns true takes one token. An Allow that returns false takes none and reserves none ahead. So no key waits for a
//     token on behalf of another, and a burst is never larger than the limiter allows.
//  2. After an Allow that returned false, wake is called when the limiter has a token again, in another goroutine and without locks.
//  3. If the limiter has changed, this is noticed within a minute.
package dispatch
