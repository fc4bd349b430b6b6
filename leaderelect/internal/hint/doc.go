// Package hint brings an elector early news of its lease. A [Watch] reports changes of the record, and a [Presence] reports the
// end of the leader's session. Both run for as long as a run of the elector. If a hint comes late, twice, or never, the elector
// is slower, and does nothing else differently.
//
// # Guarantees
//
//  1. A nil Watch and a nil Presence are ready for use, and never have news.
//  2. A receiver that is busy finds the newest hint. Older ones are dropped.
//  3. A panic in the store or in Sessions is an error, and is logged. The call is made again after a pause.
//  4. Stop waits for calls that hang only as long as it is allowed to.
package hint
