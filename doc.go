// Package setpoint is the overview of a library of controller primitives for Go, without Kubernetes. It holds no code.
//
// A setpoint is the value that a control loop drives toward. This library is everything between a desired state and the loop
// that reaches it. It is for services that keep desired state in a database, in files, or behind their own API, and must make
// the world match it.
//
// # Packages
//
// Each package imports only packages further down this list. Each can be used alone.
//
//   - [github.com/setpoint-go/setpoint/simtest]: fault injection for your own controllers
//   - [github.com/setpoint-go/setpoint/debug]: a live page that says why a key is not done
//   - [github.com/setpoint-go/setpoint/manager]: ordered start and stop of everything, with an election
//   - [github.com/setpoint-go/setpoint/controller]: the reconcile loop
//   - [github.com/setpoint-go/setpoint/leaderelect]: one active replica, with a fencing term
//   - [github.com/setpoint-go/setpoint/owner]: the children of an object, and their cleanup after it
//   - [github.com/setpoint-go/setpoint/events]: a readable log of what happened to an object
//   - [github.com/setpoint-go/setpoint/store]: a system of record with versions: list, watch, and conditional writes
//   - [github.com/setpoint-go/setpoint/informer]: a source mirrored into a cache, shared by handlers
//   - [github.com/setpoint-go/setpoint/expectations]: a process's own writes that its cache does not show yet
//   - [github.com/setpoint-go/setpoint/cache]: the mirror, its indexes, and a queue of deltas
//   - [github.com/setpoint-go/setpoint/workqueue]: deduplicated keys to process now, later, or after a backoff
//   - [github.com/setpoint-go/setpoint/retry]: retries of calls that may succeed
//   - [github.com/setpoint-go/setpoint/wait]: backoff, loops, polling, groups of goroutines, captured panics
//   - [github.com/setpoint-go/setpoint/featuregate]: features of a program that are on or off while they mature
//
// To write a controller, start with packages controller and informer. If you need a single primitive, start with its package. Where
// client-go has a word, the library uses it.
//
// # Promises
//
// Every package keeps two promises:
//
//  1. Level-triggered: a missed, repeated, merged, or late event never changes the final result.
//  2. Nothing is lost: a key that is added while it is being processed is processed again. An object that is deleted while no
//     watch is open is still reported as deleted, as long as the process remembers it. Shutdown drains.
//
// A process that restarts remembers nothing, and neither does a replica that takes over a slot. Both list what exists, and never learn of
// objects that were deleted earlier. If the controller has created something outside the store for such an object, nothing removes it.
// There are two remedies. An owner.Finalizer keeps the object until the cleanup is done. Alternatively, the controller lists what exists in
// the world and reconciles the key of each thing that it finds: a key without an object means that nothing should exist.
//
// # Rules
//
//   - There is no global state. The Config supplies the logger, the hooks, and the source of randomness.
//   - There is no injected clock. Time is package time, and tests run in testing/synctest bubbles.
//   - Each type has one constructor. Its Config struct says the default of each field, and the constructor returns an error that
//     names each field that is wrong.
//   - A constructor starts nothing. Run starts the goroutines, blocks, and returns when all of them have ended. An idle queue has no
//     goroutine at all.
//   - If the caller's code panics in a goroutine of the library, the panic is captured with its stack and handled as an error: it ends
//     neither the program nor a worker. A panic in a call that the caller makes, such as retry.Do, reaches the caller, unless the
//     documentation says otherwise.
//
// Each package numbers its guarantees in its documentation. ARCHITECTURE.md shows how the packages work together. The directory examples has programs to run and to copy.
package setpoint
