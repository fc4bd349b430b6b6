// Package storetest is the suite that every store.Store has to pass, and a store that fails when a test says so.
//
// # Usage
//
// An [Interceptor] stands in front of a store, in the tests of whatever uses one. Rules make calls fail, hang, or get lost
// before or after they were applied, and make watches break, expire, fall silent, lag, or merge states.
//
//	apps := storetest.NewInterceptor(memory)
//	lost := apps.Inject(storetest.Rule{Op: "update", Key: "web", Nth: 3, Fault: storetest.LoseReply()})
//
// Interceptors of several kinds can share one [Plan], so that a rule counts the calls of all of them. Rules see the arguments of
// a call, and the caller, if each has its own handle from [Interceptor.As].
//
// A real store can do all of this, but for what the faults named Illegal do: they break the promises of a source.
//
// [Run] is for whoever writes a store. In a test of the backend, say how to make an empty database, and run it:
//
//	func TestSQLiteIsAStore(t *testing.T) {
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
// Run has the cases of package informertest among its own, since every store is a source. Its documentation lists the mistakes
// that it finds: read it before you write a backend.
//
// # Guarantees
//
//  1. Each case is a subtest with a database of its own; a failure says which sentence of the contract of store.Store
//     does not hold.
//  2. The suite never sleeps. It waits for events that have to come, and gives up after [Patience].
//  3. The suite checks every method with every precondition and every error; writers that race through all handles;
//     caches that follow while many write; fences; the history that a watch yields, from any version, against what a
//     list holds; bookmarks; every sort of text and bytes; records that do not decode; copies all the way down;
//     finalizers; and random histories against a model.
//  4. An Interceptor without rules passes the suite. A call that a rule does not hit goes through it unchanged; one that
//     it hits fails in the way that the rule says, and in no other.
//     Watches deliver what the store delivers, in its order, unless a rule for events hits: then they differ by what the
//     documentation of the fault says.
//  5. No lock of an Interceptor is held during a call of the store, of a Before, or of a Rule.When.
//
// The suite cannot check what only a crash shows: that an acknowledged write stays. The tests of this package show how to:
// they run the suite against a log in a file, and then kill processes that write to it.
package storetest
