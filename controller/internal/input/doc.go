// Package input turns events of informers into keys of a controller. A [Feed] is one input of one controller: a handler of an
// informer, the mapping from objects to keys, and the retries of that mapping. [Feeds] are all inputs of one controller.
//
// # Guarantees
//
//  1. Each change that counts is delivered, none is merged with another, and an event adds no key twice. For an update, both states are
//     mapped; for a deletion, the last known one.
//  2. A state that [Mapped] could not map is retried after a backoff from 5 ms to a minute. So is each state that the object takes on in
//     the meantime, up to 100 of them. If the feed stops first, the next start retries at once.
//  3. If a user function panics, nothing ends, and the change counts.
//  4. When a stop has returned, the goroutines of the feeds have ended. No key is added, no user function runs, and no [Feeds.Present] is
//     in progress.
package input
