// Package redislease keeps leases in Redis, through any client that can run a Lua script: it is a leaderelect.LeaseStore
// and a shard.Lister. And it guards scripts, so that a leader of the past writes nothing.
//
// Redis promises less than a database does. Read below what that means, and use another store where two leaders at once
// cannot be afforded.
//
// # Usage
//
//	rdb := redis.NewClient(&redis.Options{Addr: "...", ContextTimeoutEnabled: true, MaxRetries: -1})
//	leases, err := redislease.New(redislease.Func(
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
// A lease is a hash with the fields version, term and value; HGETALL "{leases}:shop-controller" shows it. It has no time
// to live.
//
// # Guarantees
//
//  1. Each write is one script, which compares and swaps while the server does nothing else.
//  2. Versions are random and never come back, not even when the record is deleted, or restored from a backup.
//  3. Of an error that is neither leaderelect.ErrConflict nor ErrNotFound the outcome is unknown. A write that the client
//     sends again, because it has lost the connection, does not conflict with itself; unless another writer has replaced
//     it in between: let clients not do that, see below. An elector reads the record after a conflict, and relies on
//     neither.
//  4. A script that was guarded by a term, see [Store.Guarded], runs before any later term of that lease begins, or not at
//     all. It can guard what is on the same server, and in a cluster in the same slot, and nothing else.
//  5. All of it holds while one server lives and keeps what it has acknowledged, and no longer: see below.
//
// # What Redis does not guarantee
//
//   - By default Redis acknowledges a write before it is on disk. After a crash it comes back with what was there a second
//     ago (appendfsync everysec), or minutes ago (RDB snapshots), or with nothing. Only appendonly yes with appendfsync
//     always keeps everything, at the price of an fsync for each write.
//   - A failover, by Sentinel, Cluster or a managed service, promotes a replica that may not have the last writes. WAIT
//     makes that less likely, not impossible. While the network is parted, two servers may be masters at once.
//   - Then a lease, and its term, can be forgotten. An elector that has seen them notices (leaderelect.ErrStoreRegressed);
//     one that has not may take over at once, in a term that was used before, and lead beside the old leader until its
//     next renewal. A guard is of no help then, for what it compares with was forgotten too.
//   - maxmemory-policy must be noeviction (the default), or one of the volatile policies. Otherwise Redis deletes leases
//     when it needs memory.
//
// Several independent servers and a majority of them (Redlock) would not mend this, for there would be no term that a
// writer could be refused by: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
//
// # What loses a lease
//
// A server that does not answer for RenewDeadline, FLUSHALL, and everything above. Fail-over takes LeaseDuration and up to
// 1.2 RetryPeriod; a release is noticed at the next look of a follower, after up to 1.2 RetryPeriod.
//
// # Clients
//
// Scripts are sent as text, about 400 bytes; a client that sends EVALSHA first may do so. github.com/redis/go-redis/v9
// needs ContextTimeoutEnabled: true, or else a call in a network that loses everything without a word takes ReadTimeout,
// 3s, and that several times, whatever ctx says. Even so it goes by the deadline of ctx, and does not notice that ctx is
// canceled: to calls of your own give a deadline, such as that of the Leadership, as [Store.Guarded] does. Give it
// MaxRetries: -1: an elector tries again by itself, and a guarded script that is sent again may run twice. A client must
// not run scripts on a replica.
//
// # Shutdown
//
// The store starts no goroutine. Whoever has opened the client closes it, after the electors have returned.
//
// # Testing
//
// The tests here run on a model of Redis in Go. Those on a real server, with its failures, are in the module
// leaderelect/backendtest of the repository. Your own tests may take a memlease.Store.
package redislease
