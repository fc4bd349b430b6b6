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

// Entry is a record in a [LeaseStore].
type Entry struct {
	// Key names the record. Any string is a valid key.
	Key string

	// Value is the content. A store neither interprets nor changes it, and copies it on the way in and out.
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
//   - A call returns soon after its ctx has ended, with an error that is not definite. A call whose ctx has ended before
//     changes nothing. An elector survives stores that hang: see [Config.RequestTimeout].
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

// Watcher is a [LeaseStore] that reports changes. Followers that watch need not poll: they take over milliseconds after a
// release. A leader that was replaced stops at once. Nothing else depends on a watch: an event that is late, lost, or
// repeated can delay a change of leader, but cannot cause one.
type Watcher interface {
	// Watch yields the current record, and then the record after each change, until ctx ends or the consumer leaves its
	// loop.
	//
	//   - A missing record is an Entry that has only a key.
	//   - Intermediate states may be left out, the newest may not. States come in the order in which they were written.
	//     None is older than a record that the same store has returned or acknowledged before the call.
	//   - The same state may be yielded again.
	//   - If the watch fails, it yields its error last, with a zero Entry. It may also end without an error. The caller may
	//     watch again in both cases. After ctx has ended, the watch ends soon, with or without an error.
	Watch(ctx context.Context, key string) iter.Seq2[Entry, error]
}

// Sessions report that a process has ended, or has released its lease, before the lease expires: see [Config.Sessions]. At
// most one process holds a session, and the session ends with that process, as a connection to a database does. A process
// that is suspended still holds its session.
//
// A session is a hint: it does not decide who leads. If an implementation fails or hangs, followers wait for the lease. With
// Config.Fenced, a false report that a session has ended causes a needless change of leader, at most once per LeaseDuration
// for each elector.
//
// Both methods may be called concurrently. A call returns soon after its ctx has ended.
type Sessions interface {
	// Hold opens a session, calls held, and holds the session until ctx ends or the session is lost. The error says why it
	// returned. The name is random text that no other session ever has.
	Hold(ctx context.Context, name string, held func()) error

	// Gone blocks while a process holds the session, and then returns nil. It is called only with names of sessions that
	// were held.
	Gone(ctx context.Context, name string) error
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

// leaderOf returns the leader in a record.
func leaderOf(r lease.Record) Leader {
	return Leader{r.Holder, r.Incarnation, r.Term, maps.Clone(r.Metadata), r.AcquireTime.Round(0)}
}
