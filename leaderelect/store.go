package leaderelect

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/hint"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Entry is a record as a [LeaseStore] keeps it.
type Entry struct {
	// Key names the record. Any string is a key.
	Key string

	// Value is the content. A store neither reads nor changes it, and keeps no reference to the slice that it was given
	// or has returned.
	Value []byte

	// Term is the fencing token that belongs to Value. It is a number of its own, so that a store can compare it with the
	// term of a leader that writes something else. A store keeps it as it is.
	Term uint64

	// Version names this state of the record. It is opaque, never empty in what a store returns, and a store never uses
	// it again for the same key. The one exception is [Watcher], which tells by an empty version that there is no record.
	Version string

	// Floor is a number of the backend that grows with every write of this key and is not forgotten when the record is
	// deleted, such as the revision of etcd or the sequence of a stream; 0 if the backend has none. It is set by the
	// store and ignored in what the store is given. A record that was deleted and is created again begins its terms
	// there, so terms grow even if nobody remembers the last one.
	Floor uint64
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
//
// A store that can do more says so by a method: [Watcher], and the Lister of package shard.
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

// Watcher is a [LeaseStore] that can tell of changes. Followers that watch need not poll: they take over milliseconds
// after a release, and a leader that was replaced learns it at once. Nothing else depends on it: an event that is
// late, lost or told twice delays a change of leader and causes none.
type Watcher interface {
	// Watch yields the record as it is now, and then after each change, until ctx ends or the consumer leaves its loop.
	//
	//   - No record is yielded as an Entry with the key alone, without a version.
	//   - States that were replaced meanwhile may be left out, the newest may not. They come in the order in which they
	//     were written, and none is older than what the same store has returned or acknowledged before the call.
	//   - It may yield the same state again.
	//   - A watch that breaks yields its error, alone and last. One that simply ends may be taken up again too. When ctx
	//     ends, it ends soon, with an error or without one.
	Watch(ctx context.Context, key string) iter.Seq2[Entry, error]
}

// Sessions tell that a process is gone, or has released, long before its lease has expired: see [Config.Sessions]. A
// session is held by one process at most and ends with that process, as a connection to a database or a lock on a file
// does. A process that is only stopped still holds its session.
//
// A session is a hint. Whether it is held says nothing about who leads, and an implementation that fails or hangs costs
// time alone. With Config.Fenced, one that reports the end of a session that is held makes leaders change for nothing, at
// most once in a LeaseDuration for each elector.
//
// Both methods may be called concurrently. A call returns soon after its ctx has ended.
type Sessions interface {
	// Hold opens a session, calls held, and holds the session until ctx ends or the session is lost. It returns why. The
	// name is a random text that no session has had before, and none will have again.
	Hold(ctx context.Context, name string, held func()) error

	// Gone returns nil when nobody holds the session. It blocks while somebody does. It is called only with the names of
	// sessions that have been held.
	Gone(ctx context.Context, name string) error
}

// Holder reads who holds the lease of a key, for those who want to ask the leader and do not compete themselves: its
// Metadata can carry an address. It returns an error that wraps [ErrNotFound] when nobody holds the lease. A holder that
// was killed is returned until another has taken over; Holder cannot tell.
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

// startWatch follows the record by the watch of the store. It returns nil if the store cannot watch.
func (e *Elector) startWatch(ctx context.Context) *hint.Watch {
	watcher, ok := e.cfg.Store.(Watcher)
	if !ok {
		return nil
	}
	return hint.StartWatch(ctx, e.log, e.pollPeriod, func(ctx context.Context, report func(lease.View)) error {
		for entry, err := range iter.Seq2[Entry, error](watcher.Watch(ctx, e.cfg.Key)) {
			if err != nil || ctx.Err() != nil {
				return err
			}
			v := lease.View{At: time.Now()}
			if entry.Version != "" {
				v = viewOf(entry, v.At)
			}
			// The leader is stopped right here, because its goroutine may be in a call that hangs.
			if l := e.leadership(); l != nil && v.Record.Term > l.term {
				l.end(ErrLeaseTaken)
			}
			report(v)
		}
		return nil
	})
}

// startPresence returns nil without Config.Sessions.
func (e *Elector) startPresence(ctx context.Context) *hint.Presence {
	if e.cfg.Sessions == nil {
		return nil
	}
	return hint.StartPresence(ctx, e.cfg.Sessions, e.log, e.pollPeriod)
}

// viewOf decodes e, which was read by the given time.
func viewOf(e Entry, at time.Time) lease.View {
	return lease.ViewOf(e.Value, e.Version, e.Term, e.Floor, at)
}

// leaderOf returns what a record says to followers.
func leaderOf(r lease.Record) Leader {
	return Leader{Identity: r.Holder, Incarnation: r.Incarnation, Term: r.Term, Metadata: maps.Clone(r.Metadata)}
}
