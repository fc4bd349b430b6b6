package events

import (
	"container/list"
	"math"
	"time"

	"github.com/setpoint-go/setpoint/store"
)

// limits holds token buckets: for each object and each type of event, one for new events and one for repeats. It is the generic cell rate
// algorithm (ITU-T I.371): a bucket is only the time at which it will be full again, so a full bucket need not exist.
//
// Invariants:
//  1. order and byRef have the same objects, at most max.
//  2. order is in the order of the last use, the longest unused object first.
//  3. Each bucket is full at most span after its last use.
type limits struct {
	none   bool          // there is no limit, and nothing is held
	refill time.Duration // the time of one token
	span   time.Duration // the time of all tokens of a bucket
	max    int           // objects

	order *list.List // of *buckets
	byRef map[store.Ref]*list.Element
}

// buckets are those of one object.
type buckets struct {
	about store.Ref
	used  time.Time
	full  [tokens]time.Time
	dry   [tokens]bool // a token was refused since the bucket was last full
}

// token is what a call takes.
type token int

const (
	forNew    token = 0 // of a Normal; that of a Warning is one more
	forRepeat token = 2
	tokens          = 4
)

// of returns the token for events of a type.
func (sort token) of(kind Type) token {
	if kind == Warning {
		return sort + 1
	}
	return sort
}

func newLimits(cfg Config) limits {
	l := limits{
		none: cfg.Burst < 0 || cfg.Refill < 0, max: cfg.Objects,
		order: list.New(), byRef: make(map[store.Ref]*list.Element),
	}
	if !l.none {
		l.refill = min(cfg.Refill, math.MaxInt64/time.Duration(cfg.Burst)) // all tokens in 292 years, the longest Duration
		l.span = time.Duration(cfg.Burst) * l.refill
	}
	return l
}

// take takes a token, and reports whether there was one. If not, first reports whether it is the first one that is refused since the bucket
// was full.
func (l *limits) take(about store.Ref, sort token, now time.Time) (ok, first bool) {
	if l.none {
		return true, false
	}
	b := l.use(about, now)
	full := b.full[sort]
	if !full.After(now) {
		full = now
		b.dry[sort] = false
	}
	if full.Sub(now) > l.span-l.refill {
		first = !b.dry[sort]
		b.dry[sort] = true
		return false, first
	}
	b.full[sort] = full.Add(l.refill)
	return true, false
}

// use returns the buckets of an object, as the last used ones, and forgets at most two others that are full.
func (l *limits) use(about store.Ref, now time.Time) *buckets {
	for range 2 {
		el := l.order.Front()
		if el == nil || now.Sub(el.Value.(*buckets).used) < l.span {
			break
		}
		l.forget(el)
	}
	el, ok := l.byRef[about]
	if !ok {
		if l.order.Len() == l.max {
			l.forget(l.order.Front())
		}
		el = l.order.PushBack(&buckets{about: about})
		l.byRef[about] = el
	}
	l.order.MoveToBack(el)
	b := el.Value.(*buckets)
	b.used = now
	return b
}

func (l *limits) forget(el *list.Element) {
	l.order.Remove(el)
	delete(l.byRef, el.Value.(*buckets).about)
}
