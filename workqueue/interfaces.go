package workqueue

import "time"

// Interface is the plain queue: what a worker loop needs. Its method set equals that of client-go's TypedInterface.
type Interface[K comparable] interface {
	Add(key K)
	Len() int
	Get() (key K, shutdown bool)
	Done(key K)
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

// DelayingInterface is an [Interface] that can add a key later. Its method set equals that of client-go's
// TypedDelayingInterface.
type DelayingInterface[K comparable] interface {
	Interface[K]
	AddAfter(key K, d time.Duration)
}

// RateLimitingInterface is a [DelayingInterface] that can add a key after a backoff of its own. Its method set equals
// that of client-go's TypedRateLimitingInterface.
type RateLimitingInterface[K comparable] interface {
	DelayingInterface[K]
	AddRateLimited(key K)
	Forget(key K)
	NumRequeues(key K) int
}

// RateLimiter decides how long a key waits before it is tried again. Its method set equals that of client-go's
// TypedRateLimiter. Implementations are safe for concurrent use. A [Queue] counts the failures itself: see [Backoff] for how
// it asks its limiter.
type RateLimiter[K comparable] interface {
	// When counts one more failure of key and returns how long it should wait.
	When(key K) time.Duration
	// Forget drops what is known of key: it succeeded, or was given up.
	Forget(key K)
	// NumRequeues returns how often When was called for key since it was last forgotten. A Queue does not ask.
	NumRequeues(key K) int
}
