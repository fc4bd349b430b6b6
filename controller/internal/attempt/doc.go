// Package attempt has the context of one reconcile. Through it, the reconcile function, loggers, limiters, and stores learn about the
// reconcile, and stores report writes.
//
// # Guarantees
//
//  1. [From] finds an Attempt in its own context and in those derived from it, the innermost one first.
//  2. A limiter sees one identity per Attempt, made when it asks for the first time. [Attempt.LastWord] has the same one.
//  3. A write under the context is reported to [Controller.Wrote]. If that is nil, it is not reported, not even to an outer Attempt.
package attempt
