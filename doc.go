// Package setpoint is the overview of a library of controller primitives for Go, without Kubernetes. It holds no code.
//
// A setpoint is the value that a control loop drives towards. The library is everything between a desired state and
// the loop that reaches it, for people who keep that state in a database, in files or behind an API of their own, and
// who have to keep the world equal to it.
//
// # Packages
//
// They stand on each other; each imports only packages further down this list, and each can be used alone.
//
//   - [github.com/setpoint-go/setpoint/controller]: the reconcile loop
//   - [github.com/setpoint-go/setpoint/manager]: starts and stops everything in order, with an election
//     and stops it in reverse
//   - [github.com/setpoint-go/setpoint/leaderelect]: one active replica, with a fencing term
//   - [github.com/setpoint-go/setpoint/owner]: which object controls which, and the deletion of what is left behind
//   - [github.com/setpoint-go/setpoint/events]: what happened to an object, told to people
//   - [github.com/setpoint-go/setpoint/store]: a system of record: list, watch and write with versions
//   - [github.com/setpoint-go/setpoint/informer]: a source mirrored into a cache and shared by handlers
//   - [github.com/setpoint-go/setpoint/expectations]: writes that the cache has not seen yet
//   - [github.com/setpoint-go/setpoint/cache]: the mirror, its indexes, and the changes that wait for a consumer
//   - [github.com/setpoint-go/setpoint/workqueue]: the keys to do, each once, later or again after a backoff
//   - [github.com/setpoint-go/setpoint/retry]: tries again what may succeed
//   - [github.com/setpoint-go/setpoint/wait]: backoff, loops, polling, groups of goroutines, captured panics
//   - [github.com/setpoint-go/setpoint/featuregate]: features of a program that are on or off while they mature
//
// Whoever writes a controller begins with controller and informer; whoever needs one primitive, with its package. The
// words are client-go's, where it has one.
//
// # Promises
//
// Every package keeps two:
//
//  1. Level-triggered: a missed, repeated, merged or late event never changes the final result.
//  2. Nothing is lost: a key added while it is processed comes back; an object deleted while no watch was open is
//     reported deleted, as long as the process remembers it; a stop drains.
//
// A process that has restarted remembers nothing. It lists what exists, and is never told of an object that was deleted
// before. Nor is a replica that takes a slot over. If a controller has made something outside of the store for such an
// object, nobody removes it. There are two answers. An owner.Finalizer keeps the object, being deleted, until that is
// removed. Or the controller lists what exists in the world, and reconciles the key of each thing it finds: a key
// without an object wants nothing.
//
// Each package numbers its own guarantees in its documentation.
//
// # Conventions
//
// A type has one constructor, which starts no goroutine, and one Config, whose zero value works. What has goroutines
// has Run, which blocks until its context ends and all of them have returned. Nothing is global: the logger, hooks and
// sources of randomness come in through the Config. Time is package time, so that tests run in testing/synctest.
package setpoint
