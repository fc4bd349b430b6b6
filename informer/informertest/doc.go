// Package informertest helps to test what is built on informers.
//
// # Usage
//
// [Source] is a source in memory, whose failures are at the command of the test:
//
//	src := informertest.NewSource(func(s Site) string { return s.Name })
//	src.Put(Site{Name: "ulm"})
//	sites := informer.New(src, src.Key, informer.Config{})
//
//	src.Break(errors.New("reset by peer"))   // what is watched breaks; the next watch works
//	src.Fail(errors.New("no route to host")) // what is watched breaks, and everything fails, until Fail(nil)
//	src.Compact()                            // a watch from an earlier version gets ErrExpired
//
// An outage in which changes are missed, so that the informer must list again:
//
//	src.Fail(errors.New("no route to host"))
//	src.Delete("ulm")
//	src.Compact()
//	src.Fail(nil)
//
// # Guarantees
//
//  1. Every change, and every Bookmark, has a version of its own, one higher than the one before.
//  2. A watch yields each of them once, in order, from the version that it was asked to start after.
//  3. A list holds the objects in the order in which their keys were put first.
//
// # Testing
//
// A Source has no goroutine and no timer. In a testing/synctest bubble a watch that waits is durably blocked.
package informertest
