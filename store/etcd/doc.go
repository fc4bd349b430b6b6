// Package etcd stores the objects of package store in an etcd cluster, for any number of processes.
//
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:            []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"},
//		DialKeepAliveTime:    10 * time.Second, // or a dead connection is noticed after minutes
//		DialKeepAliveTimeout: 3 * time.Second,
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
//  2. A version is etcd's revision, which the cluster gives at the commit. It increases with every change of the whole
//     cluster, so versions of all kinds and all prefixes can be compared.
//  3. One transaction compares the record and the terms, writes the record, and records the terms. A deletion writes the
//     last state as a tombstone in the same transaction.
//  4. A Get, a Transact and the first page of a List read what a majority has committed. All pages of a List are of the
//     revision of the first.
//  5. A watch reports every change once, in order of version. It never goes on behind a gap: it ends with
//     backend.ErrExpired if the changes after its version are compacted, if the cluster has not reached that version (it was
//     restored from a backup), if another cluster answers, or if another program has deleted a record without a tombstone.
//  6. A bookmark is a progress notification that the watch has requested. Open refuses the versions of etcd in which such a
//     notification can overtake an event.
//  7. Every process refuses a write with a stale term, with backend.ErrFenced.
//
// # Order
//
// A watch delivers changes in the order of their revisions, which is that of the commits. The order depends on no clock. A bookmark
// of version v comes after all changes up to v. A write of one process is visible to every later Get, List, and Transact of all
// processes. A cache lags by the latency of its watch.
//
// # In a partition
//
// Members without a majority refuse reads and writes, and end their watches after some seconds. So a process that reaches only
// such members gets errors, and its caches stay at their version until it reaches a majority again. Put all members into the
// endpoints of the client: it then goes to another one by itself. A write that ends with another error than that of package
// store may have happened: repeat it with the same store.RequestID.
//
// If the server falls silent, a watch waits for it for 10 seconds, or for a minute while the server reads the history for it, and
// ends with an error. An informer then watches again from the last version.
//
// # Setup
//
// Open creates one key, setpoint/layout, unless [Config.Existing] is set; writes create everything else. The objects
// are under setpoint/objects, and etcdctl shows them:
//
//	etcdctl get --prefix --keys-only setpoint/objects/App/live/
//
// The values are records in binary form. Read as much as you like; write only through the library. With authentication, the user
// of the client needs read and write permission for the range "setpoint/".
//
// A server has to be etcd 3.4.31, 3.5.13, 3.6.0, or later. Do not go through the gRPC proxy of etcd, which handles no requests for
// the progress of a watch.
//
// # History and compaction
//
// etcd keeps all revisions until a client compacts them. When its quota is full (2 GiB by default), it refuses all writes, deletions
// too; the write that has filled it may have happened although it failed. So do one of two things:
//
//   - Start the members with --auto-compaction-mode=periodic --auto-compaction-retention=1h. Choose this for a cluster
//     that other programs share.
//   - Set [Config.History]. Then the writes of the Backend compact the whole cluster.
//
// A watch that resumes after its history was trimmed ends with backend.ErrExpired, and its informer lists again. Tombstones stay
// as keys for at least as long as the history; a process that writes deletes them step by step later, about one compaction
// after they have left the history. Each deletion costs the space of the last state until then.
//
// # Backups
//
// A cluster that is restored from a backup has lost the latest revisions, and gives them out again. Restore it with
//
//	etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted ...
//
// Then every watch expires, and every informer lists again. Without these options, a watch that has seen more than the restored
// cluster ends with backend.ErrExpired as long as the cluster is behind it, or if the cluster has another id. Its informer refuses
// the older lists until you call informer.Informer.Reset. If the cluster has the same id and has come past the version before
// the watch comes back, nothing can tell the difference: so after such a restore, restart the processes.
//
// # Full disks, quotas, and clocks
//
// An etcd that cannot write its files ends. Start it again when the disk has space: every acknowledged write is there. An
// etcd whose quota is used up refuses all writes until an administrator disarms the alarm. No guarantee depends on a clock.
//
// While four writers in two processes wrote and an informer watched, the tests filled the disk 100 times (25,128 acknowledged
// writes), raised the alarm of the quota 100 times (3,160), and moved the clock of the server by an hour 100 times (2,980). No
// acknowledged write was lost, the cache equaled the store, and the handler received every deletion. docs/backends.md in the
// repository lists the other faults.
//
// # Limits and cost
//
// A write takes two round trips: one transaction that reads, and one that compares and swaps. The second one costs an fsync on a
// majority of members; etcd commits many such transactions with one fsync. A lost race costs one more round trip.
//
// etcd limits a request to 1.5 MiB (--max-request-bytes, [Config.MaxRequestBytes]). The library refuses larger records with
// backend.ErrTooLarge: a record has 32 KiB less than the limit, and a value that changes has to leave 64 KiB more, so that every
// object can be deleted. Keep records far below: etcd holds all keys in memory, and its database has a few gigabytes at most.
//
// A page of a list has about 4 MiB and at most 10,000 records. A watch is one stream with one goroutine. It reads the next
// changes when the consumer has taken the last ones, so it holds no more than one response of the server in memory: a slow consumer
// costs the client nothing. A watch sends a request for the progress every [Config.Poll], and when this Backend has written.
// One that begins in the past gets its first change after up to 100 ms, and then at most 10,000 changes per second: etcd reads the
// history ten times a second, and 1,000 revisions each time.
package etcd
