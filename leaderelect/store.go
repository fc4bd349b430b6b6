package leaderelect

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Entry is a record in a [LeaseStore].
type Entry struct {
	// Key names the record. Any string is a valid key.
	Key string

	// Value is the content. A store neither interprets nor changes it, and copies it on the way in and out. The values of
	// electors have a few hundred bytes, and those of the members of package shard up to 25 KB. A store with a limit refuses
	// a value or a term beyond it with an error, and never stores a part of it.
	Value []byte

	// Term is the fencing token that belongs to Value. A store keeps it unchanged, in a field of its own. So it can compare
	// the term with that of a leader that writes other data.
	Term uint64

	// Version names this state of the record. It is opaque. A store never returns an empty version, and never uses a version
	// twice for the same key. The one exception is [Watcher], which reports a missing record with an empty version.
	Version string

	// Floor is a number of the backend that grows with every write of the key, and survives the deletion of the record.
	// Examples are the revision of etcd and the sequence number of a stream. It is 0 if the backend has none. The store sets
	// it, and ignores it in its arguments. If a record was deleted and is created again, its terms begin at the floor. So
	// terms grow even if no elector remembers the last one.
	Floor uint64
}

// LeaseStore keeps the records of leases: one register per key, changed by compare-and-swap. It needs no time to live, no
// delete, and no knowledge of its callers. The contract:
//
//   - Changes of one key happen one after the other. If several replace the same version, one of them succeeds.
//   - An acknowledged write survives any stop and start of the store.
//   - A record does not disappear by itself, however old it is.
//   - Get may return a stale record, but none that is older than a record that the same LeaseStore has returned or
//     acknowledged before.
//   - [ErrNotFound] and [ErrConflict] are definite: the call has changed nothing. They may be wrapped. After any other error
//     of Create and Update, the outcome is unknown.
//   - An error that retry.Permanent has marked says that the store cannot work as it is set up, and that it helps nothing to
//     try again: the table is missing, or the role has no privilege. The text says what to do. [Elector.Run] returns it.
//     Never mark an error that a failover, a restart, or an outage can cause.
//   - A call returns soon after its ctx has ended, with an error that is not definite: ctx.Err(), or the cause of ctx
//     unless that wraps ErrNotFound or ErrConflict, the answer to another call. A call whose ctx has ended before changes
//     nothing. An elector survives stores that hang: see [Config.RequestTimeout].
//
// All methods may be called concurrently. Package leasetest tests an implementation. A store with more abilities has more
// methods: see [Watcher], and Lister of package shard.
type LeaseStore interface {
	// Get returns the record, or ErrNotFound.
	Get(ctx context.Context, key string) (Entry, error)

	// Create stores e under e.Key and returns it with its version. If there is a record, it returns ErrConflict. It ignores
	// e.Version.
	Create(ctx context.Context, e Entry) (Entry, error)

	// Update replaces the record under e.Key if its version is e.Version, and returns it with a new version, even if nothing
	// else has changed. If there is no record, or it has another version, Update returns ErrConflict.
	Update(ctx context.Context, e Entry) (Entry, error)
}

// Holder reads the current leader of a key, for clients that call the leader and do not compete. The leader's Metadata can
// carry an address. If the lease is free, the error wraps [ErrNotFound]. Holder cannot notice that a leader has crashed: it
// returns that leader until another one takes over.
func Holder(ctx context.Context, s LeaseStore, key string) (Leader, error) {
	e, err := s.Get(ctx, key)
	if err != nil {
		return Leader{}, fmt.Errorf("leaderelect: read the holder of %q: %w", key, err)
	}
	v := viewOf(e, time.Now())
	if !v.Readable {
		return Leader{}, fmt.Errorf("leaderelect: read the holder of %q: %w", key, errUnreadable)
	}
	if !v.Held() {
		return Leader{}, fmt.Errorf("leaderelect: read the holder of %q: the lease is free: %w", key, ErrNotFound)
	}
	return leaderOf(v.Record), nil
}

// viewOf decodes e, which was read by the given time.
func viewOf(e Entry, at time.Time) lease.View {
	return lease.ViewOf(e.Value, e.Version, e.Term, e.Floor, at)
}

// leaderOf returns the leader in a record.
func leaderOf(r lease.Record) Leader {
	return Leader{r.Holder, r.Incarnation, r.Term, maps.Clone(r.Metadata), r.AcquireTime.Round(0)}
}
