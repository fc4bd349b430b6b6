// Package lease has the record of a lease, calls of a store that may hang, a clock that counts suspends, and the link between
// the electors of one replica.
//
// # Guarantees
//
//  1. [ViewOf] never fails: bytes that no elector has written are a [View] that is not readable.
//  2. [Calls] delays no caller for longer than its timeout, whatever the store does, and leaves at most eight calls behind.
//  3. [Guard] returns the error of its function. A panic or a runtime.Goexit in it becomes an error.
package lease
