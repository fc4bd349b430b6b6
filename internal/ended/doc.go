// Package ended tells an error that is the cause of a context from an answer of a store.
//
// A context may end with an answer of a store to another call as its cause: an errgroup ends its context with the first error of a member.
// A call that this context ends must not return an error that wraps this answer, because the caller would take it for the answer to its own
// call.
//
// # Guarantees
//
//  1. If [Err] replaces an error, the result wraps no answer by errors.Is, and nothing at all by errors.As.
//  2. By errors.Is, it wraps everything else that the cause wraps, and the Err of the context.
package ended
