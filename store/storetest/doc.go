// Package storetest has the conformance suite for every store.Store, and a store that fails on demand.
//
// # Usage
//
// An [Interceptor] wraps a store, in tests of code that uses one. Rules make calls fail, hang, or get lost before or after they are
// applied, and make watches break, expire, fall silent, lag, or merge states.
//
//	apps := storetest.NewInterceptor(memory)
//	lost := apps.Inject(storetest.Rule{Op: "update", Key: "web", Nth: 3, Fault: storetest.LoseReply()})
//
// Interceptors of several kinds can share one [Plan], so that a rule counts the calls of all of them. Rules see the arguments of
// a call, and the caller, if each has its own handle from [Interceptor.As].
//
// A real store can do all of this, except for the faults named Illegal, which break the promises of a source.
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
//  4. An Interceptor without rules passes the suite. A call that no rule hits passes through unchanged; a call that a rule hits fails only
//     as that rule specifies. Watches deliver the events of the store, in its order, unless a rule for events hits: then they differ only
//     as the documentation of the fault says.
//  5. No lock of an Interceptor is held during a call of the store, of a Before, or of a Rule.When.
//
// The suite cannot check that acknowledged writes survive a crash. The tests of this package show how to do that: they run the suite
// against a log in a file, and then kill processes that write to it.
package storetest
