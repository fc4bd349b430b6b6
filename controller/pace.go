package controller

import (
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// pace stands between a queue and the rate limiter of a controller. The controller decides on the delay of a retry, since
// an error may say when to try again; the queue counts, and decides whether there is a retry at all.
type pace[K comparable] struct {
	workqueue.RateLimiter[K]

	mu sync.Mutex
	// mu guards the following. Invariant: a key is in retries only while its failure is told to the queue.
	retries map[K]*retry
}

type retry struct {
	delay     time.Duration
	scheduled bool
}

func newPace[K comparable](limiter workqueue.RateLimiter[K]) *pace[K] {
	return &pace[K]{RateLimiter: limiter, retries: make(map[K]*retry)}
}

// failed tells q that an attempt of key, which q has handed out, has failed for a reason, and is to be made again after
// delay. It returns false if the budget of the key is spent: then q parks it.
func (p *pace[K]) failed(q *workqueue.Queue[K], key K, delay time.Duration, reason string) bool {
	r := &retry{delay: delay}
	p.mu.Lock()
	p.retries[key] = r
	p.mu.Unlock()
	q.AddWith(key, workqueue.AddOptions{RateLimited: true, Policy: workqueue.Replace, Reason: reason})
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.retries, key)
	return r.scheduled
}

// When implements workqueue.RateLimiter.
func (p *pace[K]) When(key K) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retries[key].delay
}

// delayed is a hook of the queue, which it calls for a retry that it schedules.
func (p *pace[K]) delayed(key K, _ time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.retries[key]; r != nil {
		r.scheduled = true
	}
}
