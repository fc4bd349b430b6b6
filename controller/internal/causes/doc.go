// Package causes remembers the trace contexts of whatever has added the keys of a controller, until the keys are reconciled.
//
// # Guarantees
//
//  1. A key has at most [Max] causes. If there are more, the oldest and the newest ones are kept. A cause is kept once.
//  2. A key without a cause costs no memory. While no key has a cause, [Book.Take] costs one atomic read.
package causes
