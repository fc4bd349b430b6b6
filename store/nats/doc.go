// Package nats stores the objects of package store in one stream of NATS JetStream, for any number of processes.
//
//	nc, err := natsgo.Connect("nats://...") // github.com/nats-io/nats.go
//	js, err := jetstream.New(nc)            // github.com/nats-io/nats.go/jetstream
//	...
//	err = nats.Create(ctx, js, nats.Config{}) // once
//	...
//	db, err := nats.Open(ctx, js, nats.Config{})
//	if err != nil {
//		return err
//	}
//	apps, err := store.Open(db, "App", store.Config[App]{})
//
// # Guarantees
//
//  1. An acknowledged write is as durable as every acknowledged message of the stream: see Durability.
//  2. A version is the sequence that the server has given to a message. So versions are in commit order for all kinds and
//     all processes.
//  3. A write is published on condition that the last message of its key is the one that the writer has read. If two writers
//     race, the server refuses one of them, which reads and decides again.
//  4. A watch reports every change in order; it skips no intermediate state. The server pushes changes. If a consumer of the
//     server is lost or stuck, or messages are lost on the way, the watch notices and goes on with another consumer.
//  5. All pages of a list show one version: see Lists.
//  6. Every process refuses a write with a stale term, with backend.ErrFenced. The term is compared and
//     recorded in the same atomic publish as the write.
//  7. Where changes are missing, a watch ends with backend.ErrExpired: the history was trimmed or the stream was purged, was
//     created again, or has not reached the version. See History.
//  8. Open refuses a server that is older than 2.12, which has no atomic publishes, and a stream that is limited in a way that
//     would remove objects. A watch and a list notice if such a limit is set later.
//
// # Order
//
// Versions of all kinds of one stream can be compared; those of two streams cannot. Get, and the reading of a Transact, ask the
// leader of the stream, so they see every write that was acknowledged before. A watch may be a replica's lag behind.
//
// # Durability
//
// A server that is killed with SIGKILL loses no acknowledged write: it has handed it to the operating system. When the machine
// loses its power, a server with default settings loses the writes of up to the last two minutes (sync_interval). Two settings
// prevent that: sync_interval: always, which costs an fsync for each write, or a stream with three replicas on machines that do
// not fail together.
//
// When acknowledged writes are lost in this way, the sequence goes back. A watch that has seen a lost version ends with
// backend.ErrExpired if the stream is still behind it. If other writes have reached that version by then, nothing can tell the
// difference: restart the processes. The same holds after a restore of a backup.
//
// A server whose disk is full refuses writes, also when there is space again: restart it then. While four writers in two processes
// wrote and an informer watched, the tests filled the disk and restarted the server 100 times (34,752 acknowledged writes), and
// moved the clock of the server by an hour 100 times (3,952). No acknowledged write was lost, the cache equaled the store, and
// the handler received every deletion. docs/backends.md in the repository lists the other faults.
//
// # A write whose acknowledgment is lost
//
// The write may have been applied: the error does not say. When the caller repeats it under the same store.RequestID, the
// engine finds the id in the object and does not apply the write again. Without an id, the comparison of versions refuses the
// second one with store.ErrConflict. The backend sends no Nats-Msg-Id: the server would forget it after the duplicate window,
// and it could not tell the caller what was stored.
//
// A client that is reconnecting buffers what it publishes. So a write whose call has returned an error may still be applied a
// moment later, unless another write of the key, or a greater term, has come first. Connect with natsgo.ReconnectBufSize(-1) if
// your code would rather have the error at once.
//
// # What a partition does
//
// The side without the majority of the replicas accepts no writes. Its former leader of the stream may answer reads for some
// seconds more, until it has noticed that the majority is gone: a client on that side can read stale state. It cannot write based
// on that state, because the majority compares every write. Watches on the cut-off side fall silent or
// end with an error; an informer resumes.
//
// # Lists
//
// A stream has no snapshots. A list is one nevertheless:
//
//  1. It creates a consumer that delivers the last message of each key, as of some sequence S, and everything after S.
//  2. Then it asks the leader how far the stream is, V, and after that for the last message of the kind, K. So every message of
//     the kind up to V is at or before K. The version of the list is the greater one of V and K.
//  3. It reads until K was delivered, and ignores what is after the version. A key that is overwritten during the list
//     was delivered as of S and is delivered again, so the list has its last state up to the version.
//  4. Only a removal could hide a state: a message after S that was superseded or was a tombstone, and was trimmed before it was
//     read. Nothing above the horizon of the history is ever trimmed. So the list asks for the horizon at the end,
//     and begins again unless the horizon is below S. It knows that S is at least the sequence of the mark that the consumer
//     has delivered first.
//
// # Subjects
//
// The stream "setpoint" has the subjects setpoint.>: setpoint.o.KIND.KEY for objects, setpoint.f.LEASE for terms,
// setpoint.c.LEASE for their comparisons, and setpoint.h for the mark of the history. A byte of a name that means something
// in a subject, is not printable or is not ASCII becomes =XX. Publish nothing there yourself, and purge nothing: a key that is
// purged by hand disappears without a change, and caches keep it until informer.Informer.Reset is called. A purge of the
// whole stream is noticed.
//
// # History
//
// The stream keeps the last [Config.History] sequences, and removes what was superseded or deleted before. A fenced write has
// two sequences, so with fenced writes these are fewer changes. A watch that resumes later ends with backend.ErrExpired,
// and its informer lists again. The stream keeps deletions for as long. Writers trim the history: about every 500th write takes
// some tens of milliseconds longer. The mark announces each removal at least five seconds
// before it happens. A watch that has read the mark may rely on it for half of that time, so it need not ask before each change.
//
// A new stream begins at the microseconds since 1970. So a stream that was deleted and is created again has no version of the
// one before, and every watch that comes with an old version ends with backend.ErrExpired. This needs a clock that was
// not set back in between.
//
// # Limits and cost
//
// A record may have 8 KiB less than max_payload of the server, which is 1 MiB by default: see Capabilities. A key has up to
// backend.MaxKey bytes, a kind up to backend.MaxKind; a longer one is refused with an error, and the connection stays.
//
// A write takes two round trips. A fenced write takes one more for each lease, and an atomic publish, for which the server
// creates and syncs a file if the stream is in files and has one replica: 15 ms instead of 0.15 ms on the machine where this was
// measured. A server takes 50 atomic publishes of a stream at once; writers wait for their turn.
//
// A list holds the encoded objects of its kind in memory. A watch is one consumer of the server, which has no acknowledgments
// and is in memory. An idle Backend with watches asks for the state of the stream every [Config.Poll].
//
// # Setup
//
// JetStream has to be enabled. [Create] creates a stream with one replica; for a cluster, change the result of [StreamConfig] and
// create the stream with it, or with a tool of yours. A client needs to publish to STREAM.> and to $JS.API.STREAM.INFO,
// $JS.API.STREAM.MSG.GET, $JS.API.STREAM.PURGE, $JS.API.CONSUMER.CREATE, $JS.API.CONSUMER.MSG.NEXT and
// $JS.API.CONSUMER.DELETE of the stream, and to subscribe to its inbox.
package nats
