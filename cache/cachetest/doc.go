// Package cachetest has a check for tests of programs that read a cache.
//
// # Usage
//
// Objects in a cache are shared, so they must not be changed. [DetectMutations] fails a test that changes one, and names the field:
//
//	cachetest.DetectMutations(t, pods, podName)          // a cache.Indexer and its key function
//	cachetest.DetectMutations(t, inf.Indexer(), podName) // the cache of an informer
//
// # Guarantees
//
//  1. An object that was changed after it was stored is reported, with its key and each path that differs. The report comes when
//     [MutationDetector.Check] is called, or at the end of the test, whichever is first. It includes changes that were made
//     before the key was stored again.
//  2. Each change is reported once.
//  3. The objects are read, never written or copied; types need no methods, and unexported fields count.
package cachetest
