package gate

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// hold is the time for which a place is kept for a late caller, and for the next call of its owner.
const hold = 10 * time.Second

// spread is the longest time over which callers without places are spread.
const spread = time.Minute

// Limiter limits the rate of calls. The package documentation describes the order in which it lets callers through. Its methods are safe
// for concurrent use.
type Limiter struct {
	perSecond float64
	burst     float64
	start     time.Time

	mu sync.Mutex
	// mu guards the following. Times are those of a clock that stops during a pause: the time since start, less all pauses. Invariants:
	//
	//  1. tokens is at least 0 and at most burst.
	//  2. promised is the sum of the calls of all places, and each of them has at least one.
	//  3. claimed is the sum of the calls of the places that have an owner, and at most tokens.
	//  4. Each place of places is in line if it has no owner, and in owned if it has one, once. All others there were dropped or replaced.
	//  5. owned is in the order of the times of its places.
	tokens   float64       // calls that may be made now
	now      time.Duration // when tokens was last updated
	paused   time.Duration // how far the clock is behind, including the rest of a current pause
	until    time.Duration // since start: the end of the last pause
	places   map[reconcile.CallerID]*place
	line     []*place // in the order in which they were given out
	owned    []*place // in the order of the last calls of their owners
	promised float64
	claimed  float64
	next     time.Duration // after which the next caller without a place should come
}

// place is a promise of calls to a caller that must come back. A place does not change: each call replaces it.
type place struct {
	id    reconcile.CallerID
	at    time.Duration // when the caller should come, or made its last call
	calls float64
	owner *reconcile.Caller // which makes the calls; nil before it has come
}

// NewLimiter returns a limiter that lets perSecond calls a second through, and up to burst calls at once after a quiet time. It
// panics if perSecond is not positive and finite, or if burst is less than 1.
func NewLimiter(perSecond float64, burst int) *Limiter {
	if !(perSecond > 0) || math.IsInf(perSecond, 1) {
		panic(fmt.Sprintf("gate: NewLimiter called with %v calls a second, must be positive and finite", perSecond))
	}
	if burst < 1 {
		panic(fmt.Sprintf("gate: NewLimiter called with a burst of %d, must be positive", burst))
	}
	return &Limiter{
		perSecond: perSecond, burst: float64(burst), tokens: float64(burst), start: time.Now(), places: make(map[reconcile.CallerID]*place),
	}
}

// Do calls call and returns its error. If the limit does not allow the call now, Do returns an error of [retry.NotYet], which says
// when to try again.
func (l *Limiter) Do(ctx context.Context, call func(ctx context.Context) error) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	return call(ctx)
}

// enter takes a token for the caller of ctx.
func (l *Limiter) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("gate: wait for a place: %w", context.Cause(ctx))
	}
	if wait := l.take(reconcile.CallerOf(ctx)); wait > 0 {
		return refuse(fmt.Errorf("gate: the limit of calls is reached for %v", wait.Round(time.Millisecond)), wait)
	}
	return nil
}

// take takes a token for a, which is nil if the caller is unknown. If there is no token, take returns the time until there may be
// one.
func (l *Limiter) take(a *reconcile.Caller) (wait time.Duration) {
	var made *float64
	if a != nil {
		n, _ := a.Notes.LoadOrStore(l, new(float64))
		made = n.(*float64) // guarded by mu
	}
	l.mu.Lock()
	pause := l.advanceLocked()
	admitted, claims := pause == 0 && l.admitLocked(a), false
	if admitted && a != nil {
		*made++
		p := l.places[a.ID]
		claims = p != nil && p.owner == a
	}
	if !admitted {
		wait = l.refuseLocked(a, made) + pause
	}
	l.mu.Unlock()
	if claims {
		a.OnEnd(func() { l.release(a) })
	}
	return wait
}

// admitLocked takes a token if there is one that is not promised to another caller.
func (l *Limiter) admitLocked(a *reconcile.Caller) bool {
	if a != nil {
		p := l.places[a.ID]
		if p != nil && (p.owner == a || p.owner == nil && p.at <= l.now && l.tokens-l.claimed >= p.calls) {
			l.dropLocked(p)
			l.tokens--
			if p.calls > 1 {
				l.ownLocked(&place{id: a.ID, at: l.now, calls: p.calls - 1, owner: a})
			}
			return true
		}
	}
	if l.tokens-l.promised < 1 {
		return false
	}
	l.tokens--
	return true
}

// refuseLocked gives a place to a, unless a is unknown or has one. It returns the time after which a should come back.
func (l *Limiter) refuseLocked(a *reconcile.Caller, made *float64) time.Duration {
	var at time.Duration
	if a != nil {
		if p := l.places[a.ID]; p != nil && p.owner == a { // a pause has stopped it in the middle, so it makes its calls again
			l.dropLocked(p)
		}
	}
	switch {
	case a == nil:
		at = l.spreadLocked(l.afterLocked(l.promised + 1))
	case l.places[a.ID] == nil:
		calls := min(max(*made+1, 2**made), l.burst)
		p := &place{id: a.ID, at: l.afterLocked(l.promised + calls), calls: calls}
		l.places[a.ID] = p
		l.line = append(l.line, p)
		l.promised += calls
		at = p.at
	default:
		p := l.places[a.ID]
		if at = p.at; at <= l.now { // it is late, as others may be
			at = l.spreadLocked(l.afterLocked(l.claimed + p.calls))
		}
	}
	return max(at-l.now, 1)
}

// spreadLocked returns at, or a later time that no other caller was given.
func (l *Limiter) spreadLocked(at time.Duration) time.Duration {
	if l.next = max(l.next, at); l.next > at+spread {
		l.next = at
	}
	at = l.next
	l.next += l.timeFor(1)
	return at
}

// release drops the place that a has claimed, with its remaining calls.
func (l *Limiter) release(a *reconcile.Caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.places[a.ID]; p != nil && p.owner == a {
		l.dropLocked(p)
	}
}

// ownLocked keeps the rest of a place for its owner.
func (l *Limiter) ownLocked(p *place) {
	l.places[p.id] = p
	l.owned = append(l.owned, p)
	l.promised += p.calls
	l.claimed += p.calls
}

// dropLocked drops p, which is in places.
func (l *Limiter) dropLocked(p *place) {
	l.promised -= p.calls
	if p.owner != nil {
		l.claimed -= p.calls
	}
	delete(l.places, p.id)
}

// advanceLocked brings everything up to date. It returns how long a current pause still lasts.
func (l *Limiter) advanceLocked() (pause time.Duration) {
	elapsed := time.Since(l.start)
	pause = max(l.until-elapsed, 0)
	now := elapsed + pause - l.paused
	l.tokens = min(l.burst, l.tokens+(now-l.now).Seconds()*l.perSecond)
	l.now = now
	l.line, l.owned = l.expireLocked(l.line), l.expireLocked(l.owned)
	return pause
}

// expireLocked drops the places at the front of a line whose time is over. It returns the rest of the line.
func (l *Limiter) expireLocked(line []*place) []*place {
	for len(line) > 0 {
		p := line[0]
		if l.places[p.id] == p {
			if l.now-p.at < hold {
				break
			}
			l.dropLocked(p)
		}
		line[0] = nil
		line = line[1:]
	}
	return line
}

// pause lets no call through for d.
func (l *Limiter) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elapsed := time.Since(l.start)
	if until := elapsed + d; until > l.until {
		l.paused += until - max(l.until, elapsed)
		l.until = until
	}
}

// afterLocked returns the time at which there will be n tokens, if none is taken until then.
func (l *Limiter) afterLocked(n float64) time.Duration {
	return l.now + l.timeFor(n-l.tokens)
}

// timeFor returns the time that n tokens take.
func (l *Limiter) timeFor(n float64) time.Duration {
	d := math.Ceil(n / l.perSecond * float64(time.Second))
	if d >= math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return max(time.Duration(d), 0)
}
