// Package etcd stores the objects of package store in an etcd cluster, for any number of processes. It also makes a source of keys and
// values that are your own, whatever their form: see [NewPrefix], and Your own keys below.
//
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:            []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"},
//		DialKeepAliveTime:    10 * time.Second, // otherwise a dead connection is noticed after minutes
//		DialKeepAliveTimeout: 3 * time.Second,
//		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{ // otherwise a client pauses for up to two minutes
//			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
//			MinConnectTimeout: 5 * time.Second,
//		})},
//	})
//	...
//	defer client.Close()
//	db, err := etcd.Open(ctx, client, etcd.Config{})
//	if err != nil {
//		return err
//	}
//	apps, err := store.Open(db, "App", store.Config[App]{})
//
// # Guarantees
//
//  1. An acknowledged write is committed by a majority of the members, each of which has it on disk. It survives a kill -9 of
//     every member, and the loss of a minority of the disks.
//  2. A version is etcd's revision, which the cluster assigns at the commit. It increases with every change of the whole cluster, so
//     versions of all kinds and all prefixes can be compared.
//  3. One transaction compares the record and the terms, writes the record, and records the terms. A deletion writes the
//     last state as a tombstone in the same transaction.
//  4. A Get, a Transact and the first page of a List read the state that a majority has committed. All pages of a List have the
//     revision of the first.
//  5. A watch reports every change once, in order of version. It never continues after a gap. It ends with backend.ErrExpired if the
//     changes after its version are compacted, or another program has deleted a record without a tombstone. It ends with
//     informer.ErrNewHistory if another cluster answers, or if the cluster was restored from a backup and has not reached that version: an
//     informer then lists again, and accepts an older version.
//  6. A bookmark has the version of an event that arrived, or of a progress notification that the watch has requested. Open refuses the
//     versions of etcd in which a progress notification can overtake an event.
//  7. Every process refuses a write with a stale term: the error wraps backend.ErrFenced.
//  8. A write of one process is visible to every later Get, List, and Transact of all processes. A bookmark of version v comes after
//     all changes up to v. No guarantee depends on a clock.
//
// # Setup
//
// Open creates one key, setpoint/layout, unless [Config.Existing] is set; writes create everything else. The objects
// are under setpoint/objects, and etcdctl shows them:
//
//	etcdctl get --prefix --keys-only setpoint/objects/App/live/
//
// The values are records in binary form. Read them freely, but write only through the library. With authentication, the user of the client
// needs read and write permission for the range "setpoint/". For [Config.History], it also needs the role root, which etcd requires for a
// compaction.
//
// The servers must run etcd 3.4.31, 3.5.13, 3.6.0, or later. Do not use the gRPC proxy of etcd, which does not handle progress requests of
// watches.
//
// # History and compaction
//
// etcd keeps all revisions until a client compacts them. When its quota is full (2 GiB by default), it refuses all writes. So set
// [Config.History], or start the members with --auto-compaction-mode=periodic --auto-compaction-retention=1h. A watch that resumes
// after its history was trimmed ends with backend.ErrExpired, and its informer lists again.
//
// # Faults
//
// In a partition, members without a majority refuse reads and writes. Restore a backup only with --bump-revision and
// --mark-compacted of etcdutl. README.md says how to operate etcd: settings, and what to do in a partition, after a restore, and
// with a full disk or quota. bench/faults.md in the repository lists the faults that the tests inject.
//
// # Limits and cost
//
// A write takes two round trips: one transaction that reads, and one that compares and swaps. The second one costs an fsync on a
// majority of members; etcd commits many such transactions with one fsync. A lost race costs one more round trip.
//
// The library refuses a record that is larger than [Config.MaxRequestBytes] allows, with backend.ErrTooLarge. Keep records far smaller:
// etcd holds all keys in memory, and its database has a few gigabytes at most.
//
// A page of a list has about 4 MiB and at most 10,000 records. A watch is one stream with two goroutines. It holds at most two responses of
// the server in memory, each about as large as the largest request, so a slow consumer costs the client little. It requests the progress
// every [Config.Poll], and after writes of this Backend. Every two seconds, it checks that the user may still read: etcd does not end a
// watch whose permission was revoked.
//
// # Your own keys
//
// If other programs write the keys, or they have a form of their own, a [Prefix] is the source of an informer, without a store:
//
//	apps, err := etcd.NewPrefix(ctx, client, func(kv *mvccpb.KeyValue) (App, error) {
//		var app App
//		err := json.Unmarshal(kv.Value, &app)
//		app.Name = strings.TrimPrefix(string(kv.Key), "apps/")
//		return app, err
//	}, etcd.PrefixConfig{Prefix: "apps/"})
//	...
//	cached, err := informer.New(apps, func(app App) string { return app.Name }, informer.Config{})
//
// The keys stay as they are, and nothing is written. All writers count: other programs, etcdctl, leases that expire, and transactions. The
// revision is the version, so compaction, partitions, restored backups, and lagging members are what they are for a Backend: everything
// above about servers, compaction, and faults applies. The user needs read permission for the range of the prefix, and for nothing else.
//
// A value that does not decode stops no other: the cache keeps the state that it has, and a controller waits with that key until the value is
// repaired or deleted. After your own write in a reconcile, call [Prefix.Wrote], and the next reconcile of that key sees it.
//
// To let one process at a time write, elect a leader with [Leases], which are two plain keys for each lease. [Leases.Guard] makes a
// transaction of yours fail once another leader has taken over.
package etcd
