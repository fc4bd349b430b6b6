package controller

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// ledger is what a controller remembers about its keys from one reconcile to the next, and from one Run to the next. It
// is also the rate limiter of the controller's queues: the delay that it gives is the one that was settled last.
type ledger[K comparable] struct {
	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. A key has an account if and only if it failed last, or is owed a reconcile.
	//  2. owed is true from the settlement that asks for another reconcile until that reconcile begins.
	//  3. cut implies owed.
	accounts map[K]*account
	seq      uint64 // of the last key that came to be owed
	counts   [Canceled + 1]uint64
}

// account is what is known of one key.
type account struct {
	failures int
	delay    time.Duration // before the next try
	owed     bool
	cut      bool   // the controller stopped the reconcile
	seq      uint64 // the order of the keys that are owed
}

func newLedger[K comparable]() *ledger[K] {
	return &ledger[K]{accounts: make(map[K]*account)}
}

// begin says that a reconcile of key begins, and returns the number of the attempt.
func (l *ledger[K]) begin(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	if a == nil {
		return 1
	}
	a.owed, a.cut = false, false
	l.closeLocked(key, a)
	return a.failures + 1
}

// settle says that the reconcile of key ended with o, and that the next try comes after delay, if there is one.
func (l *ledger[K]) settle(key K, o Outcome, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[o]++
	if _, known := l.accounts[key]; !known && !o.retried() {
		return
	}
	a := l.accountLocked(key)
	switch {
	case o.failure():
		a.failures++
	case o != Canceled:
		a.failures = 0
	}
	a.delay = delay
	a.cut = o == Canceled
	if o.retried() {
		l.oweLocked(a)
	}
	l.closeLocked(key, a)
}

// cut says that the reconcile of key, which a queue has handed out, was stopped before it began.
func (l *ledger[K]) cut(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accountLocked(key)
	a.cut = true
	l.oweLocked(a)
}

// owed returns the keys that are owed a reconcile, in the order in which they came to be owed: cut are those that the
// controller stopped.
func (l *ledger[K]) owed() (cut, others []K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []K
	for key, a := range l.accounts {
		if a.owed {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(x, y K) int { return cmp.Compare(l.accounts[x].seq, l.accounts[y].seq) })
	for _, key := range keys {
		if l.accounts[key].cut {
			cut = append(cut, key)
		} else {
			others = append(others, key)
		}
	}
	return cut, others
}

// outcomes returns how often each outcome occurred.
func (l *ledger[K]) outcomes() map[Outcome]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make(map[Outcome]uint64)
	for o := Succeeded; o <= Canceled; o++ {
		counts[o] = l.counts[o]
	}
	return counts
}

// When implements workqueue.RateLimiter.
func (l *ledger[K]) When(key K) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[key]; a != nil {
		return a.delay
	}
	return 0
}

// Forget implements workqueue.RateLimiter. The controller settles instead.
func (l *ledger[K]) Forget(K) {}

// NumRequeues implements workqueue.RateLimiter.
func (l *ledger[K]) NumRequeues(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[key]; a != nil {
		return a.failures
	}
	return 0
}

func (l *ledger[K]) accountLocked(key K) *account {
	a := l.accounts[key]
	if a == nil {
		a = &account{}
		l.accounts[key] = a
	}
	return a
}

func (l *ledger[K]) oweLocked(a *account) {
	if !a.owed {
		l.seq++
		a.owed, a.seq = true, l.seq
	}
}

// closeLocked drops the account of key if it says nothing.
func (l *ledger[K]) closeLocked(key K, a *account) {
	if a.failures == 0 && !a.owed {
		delete(l.accounts, key)
	}
}
