package expectations

import "time"

// Values records what a key must see in a cache before it can trust it, as functions of the caller that look into the cache. It fits sources
// whose writes return no version, such as an API that can only be listed. If they do return one, [Versions] is exact, and simpler.
//
//	site, _ := sites.Get(name)
//	err := api.Scale(ctx, name, 5)
//	...
//	exp.ExpectValue(name, func() bool {
//		now, _ := sites.Get(name)
//		return now != site // the cache shows another state than the one on which this write was based
//	})
//
// Such a function looks at the present only. If it asks for the exact value that was written, and somebody else changes that value before the
// cache is updated, the cache never shows it, and the key waits until the expectation expires. So prefer a question whose answer stays yes:
// whether the cache shows another state than before, or one that is at least as new.
//
// The order does not matter: the cache may show the value before ExpectValue is called.
//
// [Values.Expires] and [Values.SatisfiedExpectations] look into the cache. So an event that adds the key to the queue also ends its wait. If
// the cache is not an input of the controller, or to end waits without an event for the key, connect Values to the informer:
//
//	stop := inf.OnVersion(func(informer.Version) { exp.ValuesObserved() })
//
// The functions are called without locks, by all methods except DeleteExpectations, Name, and Notify, and possibly by several goroutines
// concurrently. They must be fast. After one has returned true it may or may not be called again. A panic goes to the caller of the method.
//
// Several goroutines may call its methods concurrently.
type Values[K comparable] struct {
	book book[K, []func() bool] // the functions of a page never change in place
}

// NewValues returns a Values in which every key is satisfied.
func NewValues[K comparable](cfg Config[K]) *Values[K] {
	return &Values[K]{book: newBook[K, []func() bool](cfg)}
}

// ExpectValue makes key wait until shown returns true, and renews its TTL. If key already waits for other functions, it waits until all of
// them return true at once. ExpectValue panics if shown is nil.
func (v *Values[K]) ExpectValue(key K, shown func() bool) {
	if shown == nil {
		panic("expectations: ExpectValue needs a function")
	}
	v.add(key, shown)
	v.look(key) // after it was added: whoever changes the cache from now on finds it
}

func (v *Values[K]) add(key K, shown func() bool) {
	defer v.book.unlock(v.book.lock())
	p := v.book.pageLocked(key)
	v.book.renewLocked(p)
	p.expected = append(p.expected[:len(p.expected):len(p.expected)], shown)
}

// ValuesObserved reports that the cache has changed. It calls the functions of all keys that wait, the longest renewed first, and satisfies
// each key whose functions return true.
func (v *Values[K]) ValuesObserved() {
	for _, key := range v.waiting() {
		v.look(key)
	}
}

// waiting returns the keys that wait, in order of expiry.
func (v *Values[K]) waiting() (keys []K) {
	defer v.book.unlock(v.book.lock())
	for p := v.book.oldest; p != nil; p = p.newer {
		keys = append(keys, p.key)
	}
	return keys
}

// look satisfies key if its functions return true.
func (v *Values[K]) look(key K) {
	p, expected := v.page(key)
	for _, shown := range expected {
		if !shown() {
			return
		}
	}
	if p == nil {
		return
	}
	defer v.book.unlock(v.book.lock())
	// If p has got another function in the meantime, whoever added it looks too.
	if v.book.pages[key] == p && len(p.expected) == len(expected) {
		v.book.meetLocked(p)
	}
}

// page returns the page of key, and what it expects. It returns nil if key does not wait.
func (v *Values[K]) page(key K) (p *page[K, []func() bool], expected []func() bool) {
	defer v.book.unlock(v.book.lock())
	if p = v.book.pages[key]; p != nil {
		expected = p.expected
	}
	return p, expected
}

// SatisfiedExpectations reports whether key is not waiting: the cache shows its values, they have expired, or it has none.
func (v *Values[K]) SatisfiedExpectations(key K) bool {
	_, waiting := v.Expires(key)
	return !waiting
}

// DeleteExpectations forgets key. Call it when the object of key is deleted.
func (v *Values[K]) DeleteExpectations(key K) { v.book.forget(key) }

// Name returns Config.Name.
func (v *Values[K]) Name() string { return v.book.cfg.Name }

// Expires reports whether key waits, and when its expectations expire. It is the opposite of SatisfiedExpectations. If the TTL
// is negative, the time is zero.
func (v *Values[K]) Expires(key K) (at time.Time, waiting bool) {
	v.look(key)
	return v.book.ask(key)
}

// Notify adds a function that is called when a key that waits becomes satisfied. See the package documentation. It panics if f is nil.
func (v *Values[K]) Notify(f func(key K)) (stop func()) { return v.book.notify(f) }
