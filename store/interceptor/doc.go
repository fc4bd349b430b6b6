// Package interceptor has a store that fails by rule, for tests of code that uses a store.
//
// A [Store] wraps another store. Rules make calls fail, hang, or get lost before or after they are applied, and make watches break, expire,
// fall silent, lag, or merge states.
//
//	apps := interceptor.New(memory)
//	lost := apps.Inject(interceptor.Rule{Op: "update", Key: "web", Nth: 3, Fault: interceptor.LoseReply()})
//
// Interceptors of several kinds can share one [Plan], so that a rule counts the calls of all of them. Rules see the arguments of
// a call, and the caller, if each has its own handle from [Store.As].
//
// A real store can do all of this, except for the faults named Illegal, which break the promises of a source.
//
// # Guarantees
//
//  1. An interceptor without rules passes the suite of package storetest.
//  2. A call that no rule hits passes through unchanged. A call that a rule hits fails only as that rule specifies.
//  3. Watches deliver the events of the store, in its order, unless a rule for events hits: then they differ only as the documentation of the
//     fault says.
//  4. No lock is held during a call of the store, of a [Before], or of a Rule.When.
package interceptor
