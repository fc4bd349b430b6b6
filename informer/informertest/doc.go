// Package informertest has a source for tests of code that uses informers, and a conformance suite for sources.
//
// # Usage
//
// [Source] is an in-memory source that fails on demand:
//
//	src := informertest.NewSource(func(s Site) string { return s.Name })
//	src.Put(Site{Name: "ulm"})
//	sites, err := informer.New(src, src.Key, informer.Config{})
//
//	src.Break(errors.New("reset by peer"))   // open watches break; the next watch works
//	src.Fail(errors.New("no route to host")) // open watches break, and everything fails, until Fail(nil)
//	src.Compact()                            // a watch from an earlier version gets ErrExpired
//
// A source that lags without losing a watch:
//
//	src.Hold()                               // watches yield no change from now on
//	src.Release()                            // they yield the changes made in the meantime
//
// Sources that share a [Clock] have one sequence of versions, like the kinds in a database:
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
// FailLists and FailWatches make only lists or only watches fail. Paged returns the same source as one that lists in pages, which
// FailListsAfter interrupts. Some sources do worse, and an informer must tolerate it:
//
//	src.Freeze(true)                         // lists are stale from now on
//	src.Mute(true)                           // watches yield nothing while versions advance: a gap
//	src.Send(ev)                             // an event as is: repeated, out of order, or without a type
//
// [Run] works in the other direction: it checks that your own source keeps the contract of informer.ListWatcher. Its documentation lists
// the mistakes that it finds: read it before you write a source.
//
//	func TestTheContract(t *testing.T) {
//		informertest.Run(t, func(t *testing.T) informertest.Subject[Site] {
//			db := open(t)
//			return informertest.Subject[Site]{
//				Source:  db,
//				Put:     func(name string, rev int) error { return db.Put(Site{name, rev}) },
//				Delete:  db.Delete,
//				Overlap: db.overlap, // two transactions: the one that begins first commits last
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
//  1. Every change, and every Bookmark, has its own version, one higher than the one before on the same Clock. A source without a shared
//     Clock has its own. A change to one source is a Bookmark for the others on its Clock.
//  2. A watch yields each of them once, in order, starting after the given version. Between Hold and Release it yields only what came
//     before Hold.
//  3. A list holds the objects in the order in which their keys were first put.
//
// Of Run:
//
//  4. Each case is a sentence of the contract, and begins with an empty source.
//  5. A wait for something that does not happen fails after Patience. No case sleeps, except between two polls, so a source that works
//     in a testing/synctest bubble can be checked in one.
//
// # Testing
//
// A Source has no goroutine and no timer. In a testing/synctest bubble, a waiting watch is durably blocked.
package informertest
