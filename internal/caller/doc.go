// Package caller tells other packages of the library who calls: which key of which controller, in which attempt. So a limiter can reserve a
// place for a key that must come back, without knowing controllers.
//
// # Guarantees
//
//  1. Each attempt has an [Attempt] of its own. Attempts for one key of one controller have equal IDs, and no others have.
//  2. A function of [Attempt.OnEnd] is called once: when the attempt has ended, or at once if it has already ended.
package caller
