package events

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/setpoint-go/setpoint/store"
)

// Queue and StoreSink are what a Recorder has inside.
type (
	Queue       = queue
	QueueConfig = queueConfig
	StoreSink   = storeSink
)

// NewQueue returns a queue as that of a Recorder, with the defaults of Config.
func NewQueue(sink func(context.Context, Event) error, cfg QueueConfig) *Queue {
	all := Config{QueueSize: cfg.Size, Backoff: cfg.Backoff, DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger}.withDefaults()
	return newQueue(sink, queueConfig{Size: all.QueueSize, Backoff: all.Backoff, DrainTimeout: all.DrainTimeout, Logger: all.Logger})
}

// NewStoreSink returns a sink as that of a Recorder, with the defaults of Config.
func NewStoreSink(s store.Store[Event], cfg Config) *StoreSink {
	cfg = cfg.withDefaults()
	return newStoreSink(s, cfg.Max, cfg.TTL)
}

// SweepNowAndThen sweeps until ctx ends, as Run does.
func (s *StoreSink) SweepNowAndThen(ctx context.Context, logger *slog.Logger) {
	s.sweepNowAndThen(ctx, logger)
}

// CheckInvariants returns an error that says which invariant of r does not hold.
func (r *Recorder) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring.Len() != len(r.held) || r.ring.Len() > r.cfg.Size {
		return fmt.Errorf("the ring has %d events, %d are held, the size is %d", r.ring.Len(), len(r.held), r.cfg.Size)
	}
	behind := 0
	for el := r.ring.Front(); el != nil; el = el.Next() {
		e := el.Value.(*heldEvent)
		if e.behind {
			behind++
		}
		if r.held[identity{e.About, e.Type, e.Reason, e.Message}] != el {
			return fmt.Errorf("%v is not held under its identity", *e)
		}
		if e.Count < 1 || e.Last.Before(e.First) {
			return fmt.Errorf("%v happened %d times from %v to %v", e.About, e.Count, e.First, e.Last)
		}
		if before := el.Prev(); before != nil && e.Last.Before(before.Value.(*heldEvent).Last) {
			return fmt.Errorf("%v is newer than its successor", before.Value)
		}
	}
	if behind != r.behind {
		return fmt.Errorf("%d events are behind, %d say so", r.behind, behind)
	}
	return r.limits.check()
}

// check returns an error that says which invariant of l does not hold.
func (l *limits) check() error {
	if l.order.Len() != len(l.byRef) || l.order.Len() > l.max || l.none && l.order.Len() > 0 {
		return fmt.Errorf("%d objects are in order, %d by their reference, the limit is %d", l.order.Len(), len(l.byRef), l.max)
	}
	for el := l.order.Front(); el != nil; el = el.Next() {
		b := el.Value.(*buckets)
		if l.byRef[b.about] != el {
			return fmt.Errorf("%v is not to be found", b.about)
		}
		if before := el.Prev(); before != nil && b.used.Before(before.Value.(*buckets).used) {
			return fmt.Errorf("%v was used before its predecessor", b.about)
		}
		for _, full := range b.full {
			if full.Sub(b.used) > l.span {
				return fmt.Errorf("a bucket of %v is full %v after its last use, which is more than %v", b.about, full.Sub(b.used), l.span)
			}
		}
	}
	return nil
}

// CheckInvariants returns an error that says which invariant of q does not hold. Put is the number of events that were put,
// busy the number that the sink is at.
func (q *Queue) CheckInvariants(put, busy int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() != len(q.byLife) || q.waiting.Len() > q.cfg.Size {
		return fmt.Errorf("%d events wait, %d by their life, the size is %d", q.waiting.Len(), len(q.byLife), q.cfg.Size)
	}
	for el := q.waiting.Front(); el != nil; el = el.Next() {
		if e := el.Value.(*Event); q.byLife[lifeOf(e)] != el {
			return fmt.Errorf("%v does not wait under its life", *e)
		}
	}
	s := q.stats
	if sum := q.waiting.Len() + busy + int(s.Delivered+s.Merged+s.Dropped+s.Failed); sum != put {
		return fmt.Errorf("%d events were put, %d are accounted for: %+v, %d wait", put, sum, s, q.waiting.Len())
	}
	return nil
}
