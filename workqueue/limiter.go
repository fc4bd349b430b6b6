package workqueue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// RateLimiter decides how long a key waits before it is tried again. Its method set equals that of client-go's TypedRateLimiter.
// Implementations must be safe for concurrent use. A [Queue] counts the failures itself: see [Backoff] for how it uses its limiter.
type RateLimiter[K comparable] interface {
	// When counts one more failure of key and returns how long key must wait.
	When(key K) time.Duration
	// Forget drops the failures of key, because it succeeded or the caller gave up on it.
	Forget(key K)
	// NumRequeues returns how often When was called for key since it was last forgotten. A Queue does not call it.
	NumRequeues(key K) int
}

// The backoff of [DefaultControllerRateLimiter].
const (
	baseDelay = 5 * time.Millisecond
	maxDelay  = 1000 * time.Second
)

// Backoff returns how long key waits after this number of failures in a row, the latest included. For the Item limiters of this package, it
// depends only on this number, and on chance if there is jitter; the limiter's own count is neither used nor changed. A [MaxOfRateLimiter]
// and a [WithMaxWaitRateLimiter] combine the backoffs of their limiters. For any other limiter, such as a [BucketRateLimiter], Backoff
// returns the result of When. A nil limiter is [DefaultControllerRateLimiter].
func Backoff[K comparable](limiter RateLimiter[K], key K, failures int) time.Duration {
	before := max(failures-1, 0)
	// A type from another package that embeds one of these does not match a case. So its own When is called.
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
	default: // also for a BucketRateLimiter, which counts nothing
		return limiter.When(key)
	}
}

// DefaultControllerRateLimiter returns the default limiter of a [Queue]: for each key 5 ms, doubled with each failure, at most 1000 s.
// Unlike client-go's, it has no token bucket, which would make the first failure of a key wait behind the reservations of all other keys.
func DefaultControllerRateLimiter[K comparable]() RateLimiter[K] {
	return NewItemExponentialFailureRateLimiter[K](baseDelay, maxDelay)
}

// ItemExponentialFailureRateLimiter gives each key a delay that doubles with each of its failures, up to a limit. It remembers
// a key until Forget, or until the key has not failed for one or two periods. A period is an hour, or twice the limit if that is
// longer. It is safe for concurrent use.
type ItemExponentialFailureRateLimiter[K comparable] struct {
	base, limit time.Duration
	failures    counter[K]
}

// NewItemExponentialFailureRateLimiter returns a limiter whose delays are base, 2*base, 4*base, and so on, at most limit. It
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

// ItemJitteredRateLimiter gives each key a delay that doubles with each of its failures, up to a limit. Half of the delay is random, so
// keys that failed together do not keep coming back together. This is "equal jitter" from Marc Brooker, "Exponential Backoff And Jitter",
// AWS Architecture Blog, 2015, https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/. "Full jitter" spreads keys
// slightly better, but gives some keys no backoff at all. The limiter remembers a key as [ItemExponentialFailureRateLimiter] does. It is
// safe for concurrent use.
type ItemJitteredRateLimiter[K comparable] struct {
	base, limit time.Duration
	random      func() float64
	failures    counter[K]
}

// NewItemJitteredRateLimiter returns a limiter. The n-th delay of a key is drawn from d/2 to d, where d is base, 2*base,
// 4*base, and so on, at most limit. The function random returns numbers in [0, 1) and must be safe for concurrent use; nil is
// math/rand/v2. It panics if base or limit is negative.
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

// delay returns the delay after this number of failures before the latest.
func (r *ItemJitteredRateLimiter[K]) delay(before int) time.Duration {
	d := exponential(r.base, r.limit, before)
	return d - time.Duration(float64(d/2)*r.random())
}

// Forget implements [RateLimiter].
func (r *ItemJitteredRateLimiter[K]) Forget(key K) { r.failures.forget(key) }

// NumRequeues implements [RateLimiter].
func (r *ItemJitteredRateLimiter[K]) NumRequeues(key K) int { return r.failures.get(key) }

// ItemFastSlowRateLimiter gives each key a short delay for its first failures and a long delay after that. It remembers a key
// until Forget, or until the key has not failed for one or two periods. A period is an hour, or twice the longer delay if that is
// longer. It is safe for concurrent use.
type ItemFastSlowRateLimiter[K comparable] struct {
	fast, slow  time.Duration
	maxAttempts int
	failures    counter[K]
}

// NewItemFastSlowRateLimiter returns a limiter whose first maxAttempts delays of a key are fast, and all others slow. It panics
// if fast, slow, or maxAttempts is negative.
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

// delay returns the delay after this number of failures before the latest.
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

// BucketRateLimiter limits the rate of all keys together with a token bucket. Each call of When reserves a token, so keys that
// fail together are spread over time. It does not distinguish keys. It is safe for concurrent use.
type BucketRateLimiter[K comparable] struct {
	Limiter *rate.Limiter
}

// When implements [RateLimiter].
func (r *BucketRateLimiter[K]) When(K) time.Duration { return r.Limiter.Reserve().Delay() }

// Forget implements [RateLimiter]. It does nothing.
func (r *BucketRateLimiter[K]) Forget(K) {}

// NumRequeues implements [RateLimiter]. It returns 0.
func (r *BucketRateLimiter[K]) NumRequeues(K) int { return 0 }

// MaxOfRateLimiter returns the longest delay of several limiters. Each call asks all of them. It is safe for concurrent use.
type MaxOfRateLimiter[K comparable] struct {
	limiters []RateLimiter[K]
}

// NewMaxOfRateLimiter returns a limiter that combines the given ones. It panics if there are none or if one is nil.
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

// NumRequeues implements [RateLimiter]. It returns the greatest number of any of the limiters.
func (r *MaxOfRateLimiter[K]) NumRequeues(key K) int {
	n := 0
	for _, l := range r.limiters {
		n = max(n, l.NumRequeues(key))
	}
	return n
}

// WithMaxWaitRateLimiter caps the delays of another limiter. It is safe for concurrent use.
type WithMaxWaitRateLimiter[K comparable] struct {
	limiter RateLimiter[K]
	limit   time.Duration
}

// NewWithMaxWaitRateLimiter returns a limiter whose delays are those of limiter, but at most limit. It panics if limiter is nil
// or limit is negative.
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

// mustNotBeNegative panics if one of the delays given to a constructor is negative.
func mustNotBeNegative(constructor string, delays ...time.Duration) {
	for _, d := range delays {
		if d < 0 {
			panic(fmt.Sprintf("workqueue: %s: the delay %v is negative", constructor, d))
		}
	}
}

// exponential returns base doubled n times, at most limit. Only a positive base grows.
func exponential(base, limit time.Duration, n int) time.Duration {
	switch {
	case base <= 0:
		return min(base, limit)
	case n >= 62 || base > math.MaxInt64>>n:
		return limit
	}
	return min(base<<n, limit)
}

// counter counts the failures of each key, in this period and the previous one. At the end of a period, it drops the keys that did not fail
// in it. So it remembers a key for at least one period after its latest failure, and for less than two. The first call after that frees the
// memory.
type counter[K comparable] struct {
	period time.Duration

	mu sync.Mutex
	// mu guards the following.
	counts map[K]int // of keys that failed in this period
	older  map[K]int // of keys that failed in the previous one but not since
	began  time.Time // the start of this period
}

// counterFor returns a counter for delays up to longest. It drops no key during its delay.
func counterFor[K comparable](longest time.Duration) counter[K] {
	period := time.Duration(math.MaxInt64)
	if longest < period/2 {
		period = max(time.Hour, 2*longest)
	}
	return counter[K]{period: period, began: time.Now()}
}

// add counts a failure and returns how many there were before.
func (c *counter[K]) add(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked()
	n, ok := c.counts[key]
	if !ok {
		n = c.older[key]
		delete(c.older, key)
	}
	if c.counts == nil {
		c.counts = make(map[K]int)
	}
	c.counts[key] = n + 1
	return n
}

func (c *counter[K]) get(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked()
	return c.counts[key] + c.older[key] // it is in at most one of them
}

func (c *counter[K]) forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked()
	delete(c.counts, key)
	delete(c.older, key)
}

// turnLocked starts a new period when this one is over.
func (c *counter[K]) turnLocked() {
	over := int64(0)
	if c.period > 0 { // false in the zero value, whose delays are 0
		over = int64(time.Since(c.began) / c.period)
	}
	switch over {
	case 0:
		return
	case 1:
		c.older, c.counts = c.counts, nil
	default:
		c.older, c.counts = nil, nil
	}
	c.began = c.began.Add(time.Duration(over) * c.period)
}
