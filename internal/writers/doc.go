// Package writers proves that a backend of package store keeps its promises while things go wrong: processes write through it,
// a test breaks something again and again, and at the end everything that the processes have been told has to be true.
//
// A test binary becomes a writer process by [Main], which its TestMain calls. [Begin] starts two of them, with two writers
// each, and an informer in the process of the test. [World.Check] ends them, and compares.
//
// # Guarantees
//
// After World.Check has found nothing:
//
//  1. Every write that was acknowledged, of any process, is in the history, at the version of the acknowledgment.
//  2. A write that a process has repeated, because its outcome was unknown, was applied once.
//  3. A counter that all writers raise has lost no raise.
//  4. The cache of the informer equals what is stored.
//  5. A handler was told of every deletion, once.
//
// If the backend forgets changes, so that watches expire, the last states are what can be compared: each is that of the last
// acknowledged write, and the handler believes in the objects that are there and in no other. [NewAway] makes watches miss changes.
package writers
