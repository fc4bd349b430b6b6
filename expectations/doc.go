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
// At the top of a reconcile: if the key is not satisfied, return. The event that satisfies it adds the key to the queue
// anyway; for the case that it is lost, come back when it has expired.
//
//	if !exp.SatisfiedExpectations(key) { // with Versions: !exp.Satisfied(key, uint64(inf.Version()))
//		return controller.Result{RequeueAfter: ttl}, nil
//	}
//
// Expect first, then act. When an act fails, take its expectation back. In the handlers of the cache, observe. When the
// object of the key is gone, delete its expectations. With [Versions] it is less: act, expect the version that came
// back, and delete.
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
//     once; what it costs does not depend on the number of keys, but for those that it reports as expired.
//  6. No code of the user runs under a lock.
//
// # Testing
//
// Time is that of package time: in a bubble of testing/synctest five minutes pass at once.
package expectations
