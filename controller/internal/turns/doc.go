// Package turns schedules periodic resyncs. Each key has a turn: a random moment of the period, the same in all periods. So the
// rate of resyncs is even, and replicas that started together do not resync together.
//
// # Guarantees
//
//  1. A key that is present when a period begins gets one turn in that period.
//  2. The turn of a key is the same in all periods of one [Turns].
//  3. If the process was suspended for longer than a period, the periods that it missed are skipped.
//  4. When [Turns.Run] has returned, it calls no function.
package turns
