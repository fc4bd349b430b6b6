// Package nats stores the objects of package store in one stream of NATS JetStream, for any number of processes. It also makes a source of a
// key-value bucket that is your own, whatever its keys and values: see [NewBucket], and Your own bucket below.
//
//	nc, err := natsgo.Connect("nats://...", // github.com/nats-io/nats.go
//		natsgo.MaxReconnects(-1),            // otherwise it gives up after two minutes
//		natsgo.PingInterval(10*time.Second)) // otherwise a dead connection is noticed after minutes
//	js, err := jetstream.New(nc) // github.com/nats-io/nats.go/jetstream
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
//  2. A version is the sequence number that the server has assigned to a message. So versions are in commit order for all kinds and all
//     processes.
//  3. A write is published on condition that the last message of its key is the one that the writer has read. If two writers race, the
//     server refuses one of them, which reads and decides again.
//  4. A watch reports every change in order, and skips no intermediate state. The server pushes changes. If a consumer of the server is
//     lost or stuck, or messages are lost in transit, the watch notices and continues with another consumer.
//  5. All pages of a list show one version.
//  6. Every process refuses a write with a stale term: the error wraps backend.ErrFenced. The term is compared and recorded in the same
//     atomic publish as the write.
//  7. If changes are missing, a watch ends with backend.ErrExpired. Changes are missing if the history was trimmed, or if the stream
//     was purged, was created again, or has not reached the version. [Config.Stream] says what happens if single messages are removed.
//  8. Open refuses a server older than 2.12, which has no atomic publishes, and a stream with a limit that would remove objects. A
//     watch and a list notice if such a limit is set later.
//
// # Order
//
// Versions of all kinds in one stream can be compared; those of two streams cannot. Get, and the reads of a Transact, ask the leader of the
// stream, so they see every write that was acknowledged before. A watch may lag behind as far as a replica does.
//
// # Durability
//
// A server that is killed with SIGKILL loses no acknowledged write. If the machine loses power, a server with default settings
// loses the writes of up to the last two minutes. To prevent that, set sync_interval: always, which costs an fsync for each write, or
// use a stream with three replicas on machines that do not fail together.
//
// README.md says how to operate NATS: settings, and what to do after a loss of acknowledged writes, after a lost acknowledgment, in a
// partition, and with a full disk. bench/faults.md in the repository lists the faults that the tests inject.
//
// # Subjects and history
//
// The stream "setpoint" has the subjects setpoint.>: see [Config.Stream]. Publish nothing there yourself, and purge nothing. It keeps
// the last [Config.History] sequences. A watch that resumes later ends with backend.ErrExpired, and its informer lists again.
//
// # Limits and cost
//
// A record may have 8 KiB less than max_payload of the server, which is 1 MiB by default: see Capabilities. A key has up to
// backend.MaxKey bytes, a kind up to backend.MaxKind; a longer one is refused with an error, and the connection stays.
//
// A write takes two round trips. A fenced write takes one more for each lease, and an atomic publish. For an atomic publish, the server
// creates and syncs a file if the stream is in files and has one replica: 15 ms instead of 0.15 ms on the machine where this was measured.
// A server accepts 50 atomic publishes of a stream at once; writers wait for their turn.
//
// A list holds the encoded objects of its kind in memory. A watch is one consumer on the server, in memory and without acknowledgments. An
// idle Backend with watches asks for the state of the stream every [Config.Poll].
//
// # Setup
//
// JetStream must be enabled. [Create] creates a stream with one replica. For a cluster, change the result of [StreamConfig] and create the
// stream with it, or with a tool of your own. A client needs to publish to STREAM.> and to $JS.API.STREAM.INFO, $JS.API.STREAM.MSG.GET,
// $JS.API.STREAM.PURGE, $JS.API.CONSUMER.CREATE, $JS.API.CONSUMER.MSG.NEXT and $JS.API.CONSUMER.DELETE of the stream, and to subscribe to
// its inbox.
//
// # Your own bucket
//
// If other programs write the keys of a bucket, or they have a form of their own, a [Bucket] is the source of an informer, without a store:
//
//	apps, err := nats.NewBucket(ctx, js, func(e jetstream.KeyValueEntry) (App, error) {
//		var app App
//		err := json.Unmarshal(e.Value(), &app)
//		app.Name = e.Key()
//		return app, err
//	}, nats.BucketConfig{Bucket: "apps"})
//	...
//	cached, err := informer.New(apps, func(app App) string { return app.Name }, informer.Config{})
//
// The bucket stays as it is, and nothing is written. All writers count: other programs, the nats command, TTLs that end, and purges. The
// revision is the version. A mirror, a replicated bucket, and one with sources, a history, or a limit of bytes are read like any other.
// nats-server must be 2.10 or newer; the tests run with 2.15.
//
// A watcher of the client does not notice that its bucket was deleted and created again, or that a key has vanished without a message. A
// Bucket notices both: its documentation says when. For keys that expire, create the bucket with LimitMarkerTTL: then each of them leaves a
// marker, and is seen at once. Without it, and in some buckets with a history, NewBucket logs a warning.
//
// A value that does not decode stops no other: the cache keeps the state that it has, and a controller waits with that key until the value is
// repaired or deleted. After your own write in a reconcile, call [Bucket.Wrote], and the next reconcile of that key sees it. If a full bucket
// refuses writes (max_bytes), it refuses deletions too: a marker is a message.
//
// A client needs to publish to $JS.API.STREAM.INFO, $JS.API.STREAM.MSG.GET, $JS.API.CONSUMER.CREATE, $JS.API.CONSUMER.MSG.NEXT, and
// $JS.API.CONSUMER.DELETE of the stream KV_BUCKET, and to subscribe to its inbox. It needs no permission for the subjects $KV.
//
// A list holds the values of its bucket in memory. A watch is one consumer on the server, in memory and without acknowledgments, as is a
// comparison while it lasts. An idle Bucket with watches asks for the state of the stream every [BucketConfig.Poll].
package nats
