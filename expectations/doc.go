// Package expectations keeps a controller from acting on a cache that does not show its own writes yet.
//
// A controller that has just created two children, and looks into a cache that lags behind, finds them missing and
// creates two more. So it writes down what it has done before it looks again, and leaves a key alone until its cache
// has caught up. What it expects is one of three things:
//
//	            it expects                    it is satisfied by                fits
//	[Counted]   so many events                so many events, whichever         any source
//	[Tracked]   events of these children      the events of these children      children that can be told apart
//	[Versions]  a version of the source       a cache that has seen it          sources whose writes return a version
//
// The words are those of client-go's controllers, where the first two come from
// (https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/controller_utils.go). The third is where Kubernetes
// is going (https://github.com/kubernetes/enhancements/issues/5647): it counts nothing, so it cannot miscount. Take it
// where you can.
//
// # Usage
//
// A controller that has them in the Expectations of its Config does not reconcile a key before it is satisfied. Elsewhere,
// return at the top of a reconcile if it is not. The event that satisfies it adds the key to the queue anyway; for the case
// that it is lost, come back when it has expired.
//
//	if at, waiting := exp.Expires(key); waiting {
//		return controller.Result{RequeueAt: at}, nil
//	}
//
// Expect first, then act. When an act fails, take its expectation back. In the handlers of the cache, observe. When the
// object of the key is gone, delete its expectations. With [Versions] it is less: act, expect the version that came
// back, and delete; whoever moves the cache on calls [Versions.VersionObserved].
//
// # Versions and a cache
//
// A [Versions] is exact if it is told of each version that the cache has reached, also of one that brings no event: an
// informer may merge a creation and the deletion after it, and tell no handler of either. For a controller of this project
// controller.ObserveVersions does so. Without one:
//
//	stop := inf.OnVersion(func(v informer.Version) { exp.VersionObserved(uint64(v)) })
//	defer stop()
//	exp.VersionObserved(uint64(inf.Version())) // what was reached before
//
// Where a deletion returns no version, that of a list that is read after it will do, however little the list selects: the
// cache has seen the deletion when it has come so far.
//
// # Holding a key back
//
// Whoever runs the reconciles can hold a key back, and let it go by the event that satisfies it, as a controller does. The
// method Notify of each of the three takes a function, which most often adds the key to a queue. It is called
//
//   - for a key of which somebody was told that it waits, by Expires or one of the methods that say whether a key is
//     satisfied, since it last waited for nothing. Of others nobody wants to know.
//   - when that key waits no more, because the last event was observed, or an expectation was taken back, or the key was
//     deleted. Not when it has expired: come back at the time that Expires returns, and ask again.
//   - after that, in the goroutine of whoever observed it, without locks. It may call every method.
//
// So no call is lost: if Expires says that a key waits, the function is called after that, unless the key expires. By the
// time of the call the key may wait again, so a call is a reason to ask, not an answer.
//
// Several functions are called in the order in which they were given. When stop has returned, nothing that is observed from
// then on leads to a call; one that another goroutine is about to make may still come. It may be called twice, and by the
// function itself.
//
// # Restarts
//
// Expectations are in memory. After a restart a controller waits until its cache has synced, which shows all that its
// predecessor has written if the list is not older than the last write; a source that may serve an older one needs a
// look at the source itself before anything is created.
//
// # Guarantees
//
//  1. A key that expects something is not satisfied before that has been observed, has been taken back, or has
//     expired.
//  2. What expires does so one TTL after the last call that set it, and is then satisfied: a lost event costs one TTL,
//     not for ever. It is reported once.
//  3. Nothing runs in the background: what has expired is noticed and reported in the next call for any key.
//  4. An observation that nobody expects changes nothing, and is not remembered, but by a [Tracked] key that acts:
//     between Begin and End an event may come before it is expected.
//  5. Memory is for keys that wait or act. One that is satisfied, expired or deleted takes none. A call takes one lock
//     once. What it costs does not depend on the number of keys, but for those that it tells of; with [Versions] it is
//     the logarithm of the number of keys that wait.
//  6. Whoever was told that a key waits, and listens, is told when it waits no more, or can ask when it has expired.
//  7. No code of the user runs under a lock.
//
// # Testing
//
// Time is that of package time: in a bubble of testing/synctest five minutes pass at once.
package expectations
