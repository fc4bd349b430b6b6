package workqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// The backoff of [DefaultControllerRateLimiter].
const (
	baseDelay = 5 * time.Millisecond
	maxDelay  = 1000 * time.Second
)

// Backoff returns how long key waits after that many failures in a row, the last one included. For a limiter of this package
// it is a function of this number: the count of the limiter itself is neither used nor changed. For any other limiter it
// is what When returns, which counts for itself. A nil limiter is that of [DefaultControllerRateLimiter].
func Backoff[K comparable](limiter RateLimiter[K], key K, failures int) time.Duration {
	before := max(failures-1, 0)
	// A type of another package that embeds one of these is another type: its own When is called.
	switch l := limiter.(type) {
	case nil:
		return exponential(baseDelay, maxDelay, before)
	case *ItemExponentialFailureRateLimiter[K]:
		return exponential(l.base, l.limit, before)
	case *ItemJitteredRateLimiter[K]:
		return l.delay(before)
	case *ItemFastSlowRateLimiter[K]:
		return l.delay(before)
	case *MaxOfRateLimiter[K]:
		var d time.Duration
		for _, each := range l.limiters {
			d = max(d, Backoff(each, key, failures))
		}
		return d
	case *WithMaxWaitRateLimiter[K]:
		return min(Backoff(l.limiter, key, failures), l.limit)
	default: // also a BucketRateLimiter, which counts nothing
		return limiter.When(key)
	}
}

// DefaultControllerRateLimiter returns the limiter that a [Queue] has when its Config names none: for each key 5 ms,
// doubled with each failure, at most 1000 s. Unlike client-go's it has no token bucket beside it, in which the first
// failure of one key would wait behind the reservations of all others.
func DefaultControllerRateLimiter[K comparable]() RateLimiter[K] {
	return NewItemExponentialFailureRateLimiter[K](baseDelay, maxDelay)
}

// DefaultItemBasedRateLimiter returns a limiter that gives each key 1 ms, doubled with each failure, at most 1000 s.
func DefaultItemBasedRateLimiter[K comparable]() RateLimiter[K] {
	return NewItemExponentialFailureRateLimiter[K](time.Millisecond, 1000*time.Second)
}

// ItemExponentialFailureRateLimiter gives each key a delay that doubles with each of its failures, up to a limit. It
// remembers a key until Forget, or until it has not failed for at least an hour, and at least twice the limit: then it
// is forgotten before twice that time is over. It is safe for concurrent use.
type ItemExponentialFailureRateLimiter[K comparable] struct {
	base, limit time.Duration
	failures    counter[K]
}

// NewItemExponentialFailureRateLimiter returns a limiter whose delays are base, 2*base, 4*base and so on, at most limit. It
// panics if base or limit is negative.
func NewItemExponentialFailureRateLimiter[K comparable](base, limit time.Duration) *ItemExponentialFailureRateLimiter[K] {
	mustNotBeNegative("NewItemExponentialFailureRateLimiter", base, limit)
	return &ItemExponentialFailureRateLimiter[K]{base: base, limit: limit, failures: counterFor[K](limit)}
}

// When implements [RateLimiter].
func (r *ItemExponentialFailureRateLimiter[K]) When(key K) time.Duration {
	return exponential(r.base, r.limit, r.failures.add(key))
}

// Forget implements [RateLimiter].
func (r *ItemExponentialFailureRateLimiter[K]) Forget(key K) { r.failures.forget(key) }

// NumRequeues implements [RateLimiter].
func (r *ItemExponentialFailureRateLimiter[K]) NumRequeues(key K) int { return r.failures.get(key) }

// ItemJitteredRateLimiter gives each key a delay that doubles with each of its failures, up to a limit, and of which half is
// random: so keys that failed together do not come back together, time and again. It is the backoff with "equal jitter" of
// Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015,
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/. "Full jitter" spreads them a little better, but it
// is no backoff at all for those that are lucky. It remembers a key as [ItemExponentialFailureRateLimiter] does. It is
// safe for concurrent use.
type ItemJitteredRateLimiter[K comparable] struct {
	base, limit time.Duration
	random      func() float64
	failures    counter[K]
}

// NewItemJitteredRateLimiter returns a limiter whose n-th delay of a key is drawn from d/2 to d, where d is base, 2*base,
// 4*base and so on, at most limit. The function random gives numbers from 0 up to but not including 1, and is safe for
// concurrent use; nil is that of math/rand/v2. It panics if base or limit is negative.
func NewItemJitteredRateLimiter[K comparable](base, limit time.Duration, random func() float64) *ItemJitteredRateLimiter[K] {
	mustNotBeNegative("NewItemJitteredRateLimiter", base, limit)
	if random == nil {
		random = rand.Float64
	}
	return &ItemJitteredRateLimiter[K]{base: base, limit: limit, random: random, failures: counterFor[K](limit)}
}

// When implements [RateLimiter].
func (r *ItemJitteredRateLimiter[K]) When(key K) time.Duration {
	return r.delay(r.failures.add(key))
}

// delay returns the delay after so many failures before the last one.
func (r *ItemJitteredRateLimiter[K]) delay(before int) time.Duration {
	d := exponential(r.base, r.limit, before)
	return d - time.Duration(float64(d/2)*r.random())
}

// Forget implements [RateLimiter].
func (r *ItemJitteredRateLimiter[K]) Forget(key K) { r.failures.forget(key) }

// NumRequeues implements [RateLimiter].
func (r *ItemJitteredRateLimiter[K]) NumRequeues(key K) int { return r.failures.get(key) }

// ItemFastSlowRateLimiter gives each key a short delay for its first failures and a long one from then on. It remembers
// a key until Forget, or until it has not failed for at least an hour, and at least twice the longer delay: then it is
// forgotten before twice that time is over. It is safe for concurrent use.
type ItemFastSlowRateLimiter[K comparable] struct {
	fast, slow  time.Duration
	maxAttempts int
	failures    counter[K]
}

// NewItemFastSlowRateLimiter returns a limiter whose first maxAttempts delays of a key are fast, all others slow.
// It panics if fast, slow or maxAttempts is negative.
func NewItemFastSlowRateLimiter[K comparable](fast, slow time.Duration, maxAttempts int) *ItemFastSlowRateLimiter[K] {
	mustNotBeNegative("NewItemFastSlowRateLimiter", fast, slow)
	if maxAttempts < 0 {
		panic(fmt.Sprintf("workqueue: NewItemFastSlowRateLimiter: maxAttempts is %d, must not be negative", maxAttempts))
	}
	return &ItemFastSlowRateLimiter[K]{fast: fast, slow: slow, maxAttempts: maxAttempts, failures: counterFor[K](max(fast, slow))}
}

// When implements [RateLimiter].
func (r *ItemFastSlowRateLimiter[K]) When(key K) time.Duration {
	return r.delay(r.failures.add(key))
}

// delay returns the delay after so many failures before the last one.
func (r *ItemFastSlowRateLimiter[K]) delay(before int) time.Duration {
	if before < r.maxAttempts {
		return r.fast
	}
	return r.slow
}

// Forget implements [RateLimiter].
func (r *ItemFastSlowRateLimiter[K]) Forget(key K) { r.failures.forget(key) }

// NumRequeues implements [RateLimiter].
func (r *ItemFastSlowRateLimiter[K]) NumRequeues(key K) int { return r.failures.get(key) }

// BucketRateLimiter limits the rate of all keys together by a token bucket. Each call of When reserves a token, so that
// keys that fail at once are spread out in time. It knows nothing of single keys. It is safe for concurrent use.
type BucketRateLimiter[K comparable] struct {
	Limiter *rate.Limiter
}

// When implements [RateLimiter].
func (r *BucketRateLimiter[K]) When(K) time.Duration { return r.Limiter.Reserve().Delay() }

// Forget implements [RateLimiter]. It does nothing.
func (r *BucketRateLimiter[K]) Forget(K) {}

// NumRequeues implements [RateLimiter]. It returns 0.
func (r *BucketRateLimiter[K]) NumRequeues(K) int { return 0 }

// MaxOfRateLimiter gives the longest of the delays of several limiters, each of which it asks each time. It is safe for
// concurrent use.
type MaxOfRateLimiter[K comparable] struct {
	limiters []RateLimiter[K]
}

// NewMaxOfRateLimiter returns a limiter that combines those given. It panics if there is none, or one is nil.
func NewMaxOfRateLimiter[K comparable](limiters ...RateLimiter[K]) *MaxOfRateLimiter[K] {
	if len(limiters) == 0 || slices.Contains(limiters, nil) {
		panic("workqueue: NewMaxOfRateLimiter: there is no limiter, or one is nil")
	}
	return &MaxOfRateLimiter[K]{limiters: append([]RateLimiter[K](nil), limiters...)}
}

// When implements [RateLimiter].
func (r *MaxOfRateLimiter[K]) When(key K) time.Duration {
	var d time.Duration
	for _, l := range r.limiters {
		d = max(d, l.When(key))
	}
	return d
}

// Forget implements [RateLimiter].
func (r *MaxOfRateLimiter[K]) Forget(key K) {
	for _, l := range r.limiters {
		l.Forget(key)
	}
}

// NumRequeues implements [RateLimiter]. It returns the greatest number that any of the limiters gives.
func (r *MaxOfRateLimiter[K]) NumRequeues(key K) int {
	n := 0
	for _, l := range r.limiters {
		n = max(n, l.NumRequeues(key))
	}
	return n
}

// WithMaxWaitRateLimiter cuts the delays of another limiter. It is safe for concurrent use.
type WithMaxWaitRateLimiter[K comparable] struct {
	limiter RateLimiter[K]
	limit   time.Duration
}

// NewWithMaxWaitRateLimiter returns a limiter whose delays are those of the given one, but at most limit. It
// panics if limiter is nil or limit is negative.
func NewWithMaxWaitRateLimiter[K comparable](limiter RateLimiter[K], limit time.Duration) *WithMaxWaitRateLimiter[K] {
	if limiter == nil {
		panic("workqueue: NewWithMaxWaitRateLimiter: the limiter is nil")
	}
	mustNotBeNegative("NewWithMaxWaitRateLimiter", limit)
	return &WithMaxWaitRateLimiter[K]{limiter: limiter, limit: limit}
}

// When implements [RateLimiter].
func (r *WithMaxWaitRateLimiter[K]) When(key K) time.Duration {
	return min(r.limiter.When(key), r.limit)
}

// Forget implements [RateLimiter].
func (r *WithMaxWaitRateLimiter[K]) Forget(key K) { r.limiter.Forget(key) }

// NumRequeues implements [RateLimiter].
func (r *WithMaxWaitRateLimiter[K]) NumRequeues(key K) int { return r.limiter.NumRequeues(key) }

// mustNotBeNegative panics if one of the delays that were given to a constructor is negative.
func mustNotBeNegative(constructor string, delays ...time.Duration) {
	for _, d := range delays {
		if d < 0 {
			panic(fmt.Sprintf("workqueue: %s: the delay %v is negative", constructor, d))
		}
	}
}
