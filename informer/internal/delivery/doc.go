// Package delivery calls one handler of an informer for the changes of its cache. It knows neither sources nor informers: it receives
// changes, and makes calls.
//
// # Guarantees
//
//  1. Calls do not overlap. For each key, they are OnAdd, any number of OnUpdate and OnResync, OnDelete, and then OnAdd again. The old
//     state of an update is the new state of the call before.
//  2. The objects of [Listener.Begin] come first, in their current state, followed by the changes in the order of [Listener.Tell].
//  3. The pending changes of a key are merged: there is one item for each key, and the last call of a key is for its last state. With
//     EveryEvent, there is an item for each change.
//  4. [Listener.Tell] never waits for a call.
//  5. After [Listener.Dismiss] no call begins, and its channel is closed when none is running. A call may dismiss its own listener.
//  6. A call that panics is reported, with its stack, and is not repeated.
//
// Guarantees 6, 8, 9, 11, and 13 of package informer rest on these.
package delivery
