// Package expectations keeps a controller from acting on a cache that does not yet show the controller's own writes.
//
// Suppose that a controller creates two children, and then reads a cache that lags behind. It finds them missing and creates two more. To
// avoid this, it records what it expects to see, and does not act on a key until its cache has caught up. It can expect one of four
// things:
//
//	          a key expects              satisfied by                      fits
//	Counted   a number of events         that many events of any child     any source
//	Tracked   events of some children    the events of these children      children with known identities
//	Versions  a version of the source    a cache that has seen it          sources whose writes return a version
//	Values    a value in the cache       a cache that shows it             sources without versions, such as those of informer/poll
//
// The method names are those of client-go's controllers, where the first two come from
// (https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/controller_utils.go). Kubernetes is moving to the third
// (https://github.com/kubernetes/enhancements/issues/5647), which cannot miscount. Use it where you can.
//
// # Usage
//
// A controller with Expectations in its Config does not reconcile a key that is not satisfied. Elsewhere, return at the top of a reconcile
// if the key is not satisfied. The event that satisfies the key adds it to the queue anyway. That event may be lost, so also retry when the
// expectations expire:
//
//	if at, waiting := exp.Expires(key); waiting {
//		return controller.Result{}, retry.NotYet(errors.New("the cache lacks own writes"), time.Until(at))
//	}
//
// If Config.TTL is negative, nothing expires, and the time is zero: then use a delay of 0, which means "only after an event".
//
// With Counted and Tracked, first expect, then act. If a write fails, withdraw its expectation. In the handlers of the cache, call the
// Observed methods. When the object of the key is deleted, call DeleteExpectations in the handler of its deletion: a key that waits does not reach a
// reconcile. A controller with Expectations in its Config does it for the objects of its watches made by For.
//
// With Versions, first act, then expect the version that the write returned. The code that updates the cache calls
// [Versions.VersionObserved]: see [Versions]. With Values, act, and then expect that the cache shows another state than the one on which the
// write was based.
//
// # Notify
//
// A controller can hold back a key until it is satisfied. The method Notify of each type takes a function, which usually adds the key to a
// queue:
//
//   - It is called only for a key for which Expires or SatisfiedExpectations has reported that it waits, since the key was
//     last satisfied.
//   - It is called when the key is satisfied: the last event was observed, an expectation was withdrawn, or the key was deleted. It is not
//     called when the key expires: check again at the time that Expires returned.
//   - It runs in the goroutine that made the observation, without locks, and may call every method.
//
// So no call is lost: after Expires has reported that a key waits, the function is called, unless the key expires. At the time of the call,
// the key may have new expectations. So treat a call as a reason to check again.
//
// Functions are called in the order in which they were added. After stop has returned, later observations lead to no calls; a call by
// another goroutine may still be in flight. stop may be called twice, and by the function itself.
//
// # Restarts
//
// Expectations are in memory. After a restart, a controller waits until its cache has synced. That cache shows all writes of the previous
// process, unless the list is older than the last write. If a source may serve older lists, read the source itself before you create
// anything.
//
// # Guarantees
//
//  1. A key with expectations is not satisfied until they have been observed or withdrawn, or have expired.
//  2. Expectations expire one TTL after the last call that renewed them. The key is then satisfied: a lost event costs at most
//     one TTL. Each expiry is reported once.
//  3. Nothing runs in the background: expiry is noticed and reported by the next call for any key.
//  4. An observation that no key expects changes nothing, and is not remembered. The exception is a Tracked key between Begin
//     and End, whose events may arrive before they are expected.
//  5. Only keys that wait, or are between Begin and End, take memory. A call takes one lock once. Its cost does not depend on the
//     number of keys, except for the keys that it reports. With Versions, it grows with the logarithm of the number of keys
//     that wait, and with the number itself when a new history begins. [Values.ValuesObserved] takes the lock twice for each key that waits.
//  6. After Expires or SatisfiedExpectations has reported that a key waits, the function given to Notify is called when the key is
//     satisfied. If the key expires instead, the caller can check then.
//  7. No user code runs under a lock. A call that would store a key that is not equal to itself (NaN) panics.
//
// # Testing
//
// All time comes from package time: in a testing/synctest bubble, the TTL passes in no real time.
package expectations
