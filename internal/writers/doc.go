// Package writers checks that a backend of package store keeps its promises under faults: processes write through it while a test
// repeatedly breaks something, and at the end all acknowledgments that the processes have received must be true.
//
// [Main], called by a TestMain, turns a test binary into a writer process. [Begin] starts two of them, with two writers each, and an
// informer in the process of the test. [World.Check] ends them, and compares.
//
// # Guarantees
//
// If World.Check finds nothing:
//
//  1. Every acknowledged write, of any process, is in the history, at the version of the acknowledgment.
//  2. A write that a process repeated because its outcome was unknown was applied once.
//  3. A counter that all writers increment has lost no increment.
//  4. The cache of the informer equals the stored objects.
//  5. A handler received every deletion once.
//
// If the backend drops changes, so that watches expire, only the last states can be compared: each is that of the last acknowledged write,
// and the handler knows exactly the objects that exist. [NewAway] makes watches miss changes.
//
// Some servers lose acknowledged writes, such as a standby that lags when it is promoted. [BeginLossy] and [World.CheckLossy] are for them:
// exactly the writes at the lost versions are missing, and no lost version is assigned again. The watches and the cache agree with the
// history that is left.
package writers
