// Package lease is shared by leaderelect and leaderelect/shard. It has the record of a lease, calls of a store that may
// hang, and the link between the slots of a replica and their electors.
//
// # Guarantees
//
//  1. [ViewOf] never fails: bytes that no elector has written are a [View] that is not readable.
//  2. [Calls] delays no caller for longer than its timeout, whatever the store does, and leaves at most eight calls behind.
//  3. [Guard] returns the error of its function. A panic or a runtime.Goexit in it becomes an error.
package lease
