// Package attempt has the context of one reconcile: what the reconcile function, loggers, limiters, and stores learn of it, and
// what stores tell about it.
//
// # Guarantees
//
//  1. [From] finds an Attempt in its own context and in those derived from it, the innermost one first.
//  2. A limiter sees one identity per Attempt, made when it asks for the first time. [Attempt.LastWord] has the same one.
//  3. A write under the context is told to [Controller.Wrote]. If that is nil, it is told to nobody, not even to an outer Attempt.
package attempt
