// Package input turns events of informers into keys of a controller. A [Feed] is one input of one controller: a handler of an
// informer, the mapping from objects to keys, and the retries of that mapping. [Feeds] are all inputs of one controller.
//
// # Guarantees
//
//  1. Each change of an object that counts is told, none is merged with another, and an event adds no key twice. Of an update both
//     states are mapped, of a deletion the last one known.
//  2. What [Mapped] could not map is mapped again, after a backoff from 5 ms to a minute, and so is each state that the object takes
//     on meanwhile, up to 100 of them. If the feed stops before, the next start goes on at once.
//  3. A function of the user that panics ends nothing: the change counts.
//  4. When a stop has returned, no key is added, no function of the user runs, no [Feeds.Present] is under way, and the goroutines
//     of the feeds have ended.
package input
