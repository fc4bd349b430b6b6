// Package informertest helps to test what is built on informers.
//
// # Usage
//
// [Source] is a source in memory, whose failures are at the command of the test:
//
//	src := informertest.NewSource(func(s Site) string { return s.Name })
//	src.Put(Site{Name: "ulm"})
//	sites, err := informer.New(src, src.Key, informer.Config{})
//
//	src.Break(errors.New("reset by peer"))   // what is watched breaks; the next watch works
//	src.Fail(errors.New("no route to host")) // what is watched breaks, and everything fails, until Fail(nil)
//	src.Compact()                            // a watch from an earlier version gets ErrExpired
//
// A source that lags, and loses no watch:
//
//	src.Hold()                               // watches yield nothing of what happens from now on
//	src.Release()                            // they yield all that has happened meanwhile
//
// Sources that share a [Clock] have one sequence of versions, like the kinds of a database:
//
//	var clock informertest.Clock
//	sites, servers := informertest.NewSourceOn(&clock, siteKey), informertest.NewSourceOn(&clock, serverKey)
//
// An outage in which changes are missed, so that the informer must list again:
//
//	src.Fail(errors.New("no route to host"))
//	src.Delete("ulm")
//	src.Compact()
//	src.Fail(nil)
//
// Failures of lists or watches alone are FailLists and FailWatches. Paged is the same source as one that lists in pages, which
// FailListsAfter breaks in the middle. Some sources do worse, and an informer has to bear it:
//
//	src.Freeze(true)                         // lists are stale from now on
//	src.Mute(true)                           // watches are told nothing, while versions pass: a gap
//	src.Send(ev)                             // an event as it is: a second time, out of order, without a type
//
// [Run] is the other direction: it checks that a source of your own keeps the contract of informer.ListWatcher. Its documentation
// lists the mistakes that it finds: read it before you write a source.
//
//	func TestTheContract(t *testing.T) {
//		informertest.Run(t, func(t *testing.T) informertest.Subject[Site] {
//			db := open(t)
//			return informertest.Subject[Site]{
//				Source:  db,
//				Put:     func(name string, rev int) error { return db.Put(Site{name, rev}) },
//				Delete:  db.Delete,
//				Overlap: db.overlap, // two transactions: the one that began first commits last
//				Read:    func(s Site) (string, int) { return s.Name, s.Rev },
//				History: 1000,
//				Expire:  db.Compact,
//			}
//		})
//	}
//
// # Guarantees
//
// Of a Source, unless Freeze, Mute or Send break them:
//
//  1. Every change, and every Bookmark, has a version of its own, one higher than the one before on the same Clock. A source
//     without a shared Clock has its own. A change of one source is a Bookmark of the others on its Clock.
//  2. A watch yields each of them once, in order, from the version that it was asked to start after. Between Hold and
//     Release it yields only what came before Hold.
//  3. A list holds the objects in the order in which their keys were put first.
//
// Of Run:
//
//  4. Each case is a sentence of the contract, and begins with an empty source.
//  5. A wait for something that does not happen fails after Patience. No case sleeps, so a source that works in a
//     testing/synctest bubble can be checked in one.
//
// # Testing
//
// A Source has no goroutine and no timer. In a testing/synctest bubble a watch that waits is durably blocked.
package informertest
