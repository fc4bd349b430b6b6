// Package storetest has the conformance suite for every store.Store.
//
// # Usage
//
// [Run] is for authors of backends. In a test of the backend, provide an empty database, and call Run:
//
//	func TestSQLiteStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Database {
//			file := filepath.Join(t.TempDir(), "test.db")
//			one, two := openSQLite(t, file), openSQLite(t, file) // closed by t.Cleanup
//			return storetest.Database{
//				Handles:   []backend.Backend{one, two},
//				Remembers: 1000,
//				Expire:    one.Trim,
//			}
//		})
//	}
//
// Run includes the cases of package informertest, since every store is a source. Its documentation lists the mistakes that it finds: read
// it before you write a backend.
//
// # Guarantees
//
//  1. Each case is a subtest with its own database. A failure names the rule in the contract of store.Store that does not hold.
//  2. The suite never sleeps. It waits for events that must arrive, and gives up after [Patience].
//  3. The suite checks every method with every precondition and every error; writers that race through all handles; caches that follow
//     concurrent writes; fences; the history that a watch yields, from any version, against lists; bookmarks; every kind of text and bytes;
//     records that do not decode; deep copies; finalizers; and random histories against a model.
//
// The suite cannot check that acknowledged writes survive a crash. The tests of this package show how to do that: they run the suite
// against a log in a file, and then kill processes that write to it.
package storetest
