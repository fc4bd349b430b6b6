// Package input turns what informers tell into keys of a controller. A [Feed] is one input of one controller: a handler of an
// informer, what it makes of objects, and what it does when that fails.
//
// # Guarantees
//
//  1. Each change of an object that counts is told, none is merged with another, and an event adds no key twice. Of an update both
//     states are mapped, of a deletion the last one known.
//  2. What [Mapped] could not map is mapped again, after a backoff from 5 ms to a minute, and so is each state that the object takes
//     on meanwhile, up to 100 of them. If the feed stops before, the next start goes on at once.
//  3. A function of the user that panics ends nothing: the change counts.
//  4. When Stop has returned, no key is added, no function of the user runs, and the goroutines of the feed have ended.
package input
