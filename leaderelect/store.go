package leaderelect

import "context"

// Entry is a record as a [LeaseStore] keeps it.
type Entry struct {
	// Key names the record. Any string is a key.
	Key string

	// Value is the content. A store neither reads nor changes it, and keeps no reference to the slice that it was given
	// or has returned.
	Value []byte

	// Term is the fencing token that belongs to Value. It stands beside it, as a number, so that a store can compare it
	// with the term of whoever writes something else. A store keeps it as it is.
	Term uint64

	// Version names this state of the record. It is opaque, never empty in what a store returns, and a store never uses
	// it again for the same key.
	Version string
}

// LeaseStore keeps the record of a lease: one register per key, changed by compare-and-swap. Everything else that
// an [Elector] needs it does itself, so a LeaseStore has no time to live, no delete, and no idea who calls it.
//
//   - Changes of one key happen one after the other. Of several that were meant for the same version, one succeeds.
//   - What was acknowledged stays, also when the store is stopped and started, by whatever means.
//   - A record does not go away by itself, however old it is.
//   - Get may be behind, but not behind what the same LeaseStore has returned or acknowledged before.
//   - [ErrNotFound] and [ErrConflict] are definite. Wrap them or return them as they are; errors.Is finds them. After any
//     other error of Create and Update the caller takes the outcome to be unknown.
//   - A call returns soon after its ctx has ended, with an error that is not definite. If ctx had ended before the
//     call, it changes nothing. An elector survives a store that does not keep to this, see [Config.RequestTimeout].
//
// All methods may be called by many goroutines at once. Package leasetest tests an implementation.
type LeaseStore interface {
	// Get returns the record, or ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)

	// Create stores e under e.Key if there is no record, and returns it with its version; otherwise ErrConflict.
	// e.Version is ignored.
	Create(ctx context.Context, e Entry) (Entry, error)

	// Update replaces the record under e.Key if its version is e.Version, and returns it with its new version, which is
	// another one even if nothing else has changed. If there is no record, or it has another version, it returns
	// ErrConflict.
	Update(ctx context.Context, e Entry) (Entry, error)
}
