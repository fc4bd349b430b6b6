// Package cachetest helps to test programs that read a cache.
//
// # Usage
//
// Objects in a cache are shared, so nobody may change one. [Detect] makes a test fail that does, and says where:
//
//	cachetest.Detect(t, pods, podName)          // a cache.Indexer and its key function
//	cachetest.Detect(t, inf.Indexer(), podName) // that of an informer
//
// # Guarantees
//
//  1. An object that was changed after it was stored is reported with its key and with each path that differs, when
//     its key is stored again, when [Detector.Check] is called, or at the end of the test, whichever is first.
//  2. It is reported once for each change.
//  3. The objects are read, never written or copied; types need no methods, and unexported fields count.
package cachetest
