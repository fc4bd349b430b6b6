// Package redislease keeps leases in Redis, through any client that can run a Lua script. It is a leaderelect.LeaseStore
// and a shard.Lister. It also guards scripts, so that an earlier leader cannot write.
//
// Redis guarantees less than a database does. Read the sections below. If you cannot tolerate two leaders at once, use
// another store.
//
// # Usage
//
//	rdb := redis.NewClient(&redis.Options{Addr: "...", ContextTimeoutEnabled: true, MaxRetries: -1})
//	leases := redislease.New(redislease.Func(
//		func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
//			return rdb.Eval(ctx, script, keys, args...).Result()
//		}), redislease.Config{})
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store: leases,
//		Key:   "shop-controller",
//		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
//			...
//			_, err := leases.Guarded(ctx, `redis.call('SET', KEYS[1], ARGV[1])`,
//				[]string{"{leases}:shop-state"}, state)
//
// A lease is a hash with the fields version, term, and value. HGETALL "{leases}:shop-controller" shows it. It has no time to
// live.
//
// # Guarantees
//
//  1. Each write is one script, which compares and swaps atomically.
//  2. Versions are random and never reused, even if the record is deleted or restored from a backup.
//  3. After an error that is neither leaderelect.ErrConflict nor ErrNotFound, the outcome is unknown. If the client sends
//     a write again after it has lost the connection, the write conflicts with itself only if another writer has replaced
//     it. An elector does not rely on that: after a conflict, it reads the record.
//  4. A script that is guarded by a term ([Store.Guarded]) runs before any later term of that lease begins, or not at
//     all. It can guard data on the same server, and in a cluster only data in the same slot.
//  5. An error of a server that needs a password, or refuses the user, the type of a key, or keys of two slots, is marked
//     with retry.Permanent: an elector that has never reached the lease ends with it.
//  6. All of this holds only while one server lives and keeps its acknowledged writes.
//
// # What Redis does not guarantee
//
//   - By default, Redis acknowledges a write before it is on disk. After a crash, Redis may have the data of a second ago
//     (appendfsync everysec), of minutes ago (RDB snapshots), or none. Only appendonly yes with appendfsync always keeps
//     every write, and costs an fsync per write.
//   - A failover, by Sentinel, Cluster, or a managed service, promotes a replica that may lack the last writes. WAIT
//     makes that less likely, not impossible. During a network partition, two servers may be masters at once.
//   - In these cases, a lease and its term can be lost. An elector that has seen them notices (leaderelect.ErrStoreRegressed). An
//     elector that has not seen them may take over at once, with a term that was used before. Meanwhile, the old leader works until its
//     next renewal. A guard does not help then, because its term was lost too.
//   - maxmemory-policy must be noeviction (the default) or one of the volatile policies. Otherwise Redis deletes leases
//     when it runs out of memory.
//
// A majority of several independent servers (Redlock) would not help, because it has no term by which a write could be
// refused: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
//
// # What loses a lease
//
// A server that does not answer for RenewDeadline, FLUSHALL, and everything above. A failover takes LeaseDuration and up
// to 1.2 RetryPeriod and 50ms. A follower notices a release after up to 1.2 RetryPeriod.
//
// # Clients
//
// Scripts are sent as text of about 400 bytes. A client may send EVALSHA first. A client must not run scripts on a replica.
//
// github.com/redis/go-redis/v9 needs two options:
//
//   - ContextTimeoutEnabled: true. Otherwise, if the network drops all packets, a call takes ReadTimeout (3s) several
//     times, whatever its ctx says. With the option, go-redis uses the deadline of ctx, but still does not notice that
//     ctx is canceled. So pass a deadline to your own calls, such as the Deadline of the Leadership. [Store.Guarded] does
//     that.
//   - MaxRetries: -1. An elector retries by itself, and a guarded script that is sent again may run twice.
//
// # Shutdown
//
// The store starts no goroutine. Close your client after the electors have returned.
//
// # Testing
//
// The tests of this package run on a model of Redis in Go. Tests on a real server and its failures are in the module
// leaderelect/backendtest. Use a memlease.Store in your own tests.
package redislease
