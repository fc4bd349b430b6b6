package events

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// queueConfig is the part of Config about queues.
type queueConfig struct {
	Name         string // of the field of Config, for the log
	Size         int
	Backoff      wait.Backoff
	DrainTimeout time.Duration
	Logger       *slog.Logger
}

// queue decouples a Recorder, which must not wait, from a slow sink, such as a store or a network. Put never blocks; Run delivers one event
// after the other, and retries failures. While an event waits, its repeats are merged into it. Its methods may be called concurrently.
type queue struct {
	cfg  queueConfig
	sink func(context.Context, Event) error
	wake chan struct{} // Put sends, without waiting, after it has put; Run receives. Holds one. Never closed

	mu sync.Mutex

	// mu guards the following. Invariants:
	//  1. waiting and byLife have the same events, at most cfg.Size, each in byLife under its own life.
	//  2. Every event that was put is counted once in stats, is waiting, or is with the sink.

	waiting *list.List // of *Event, the longest waiting one first
	byLife  map[life]*list.Element
	running bool
	full    bool       // an event was dropped since no event waited
	stats   QueueStats // the counters
}

// life identifies the states of one event, from when it was first held until it was dropped from the ring.
type life struct {
	id    identity
	first time.Time
}

func lifeOf(e *Event) life {
	return life{identityOf(e), e.First.UTC().Round(0)}
}

// newQueue returns an empty queue in front of sink, which Run alone calls, never twice at once, and without locks.
func newQueue(sink func(context.Context, Event) error, cfg queueConfig) *queue {
	return &queue{
		cfg: cfg, sink: sink, wake: make(chan struct{}, 1),
		waiting: list.New(), byLife: make(map[life]*list.Element),
	}
}

// Put adds an event, or the new state of a waiting one. It never blocks, even if the queue is not running: when the queue is full, the
// event that has waited longest is dropped.
func (q *queue) Put(e Event) {
	q.mu.Lock()
	dropped, first := q.putLocked(&e)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // Run will check anyway
	}
	q.logDropped(dropped, first)
}

// putLocked returns the event that is dropped to make room, or nil, and whether it is the first one since no event waited.
func (q *queue) putLocked(e *Event) (dropped *Event, first bool) {
	if el, ok := q.byLife[lifeOf(e)]; ok {
		q.stats.Merged++
		if held := el.Value.(*Event); held.Count < e.Count { // states may arrive out of order
			*held = *e
		}
		return nil, false
	}
	q.byLife[lifeOf(e)] = q.waiting.PushBack(e)
	if q.waiting.Len() <= q.cfg.Size {
		return nil, false
	}
	return q.takeLocked(), q.dropLocked()
}

// dropLocked counts a dropped event, and reports whether it is the first one since no event waited.
func (q *queue) dropLocked() (first bool) {
	q.stats.Dropped++
	first = !q.full
	q.full = true
	return first
}

// logDropped logs that an event was dropped, if it is the first one.
func (q *queue) logDropped(e *Event, first bool) {
	if first {
		attrs := append([]slog.Attr{slog.String("for", q.cfg.Name)}, attrsOf(e)...)
		q.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "event dropped: too many wait", attrs...)
	}
}

// Run delivers events until ctx ends, and then the events that still wait, for at most DrainTimeout. It returns nil, or [ErrRunning] if the
// queue is running. It may be called again after it has returned.
func (q *queue) Run(ctx context.Context) error {
	q.mu.Lock()
	if q.running {
		q.mu.Unlock()
		return ErrRunning
	}
	q.running = true
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.running = false
	}()

	work, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	over, limited := make(chan struct{}), make(chan struct{})
	unlimited := context.AfterFunc(ctx, func() { // limits the drain; ends with it, or gives it up; waited for below
		defer close(limited)
		limit := time.NewTimer(q.cfg.DrainTimeout)
		defer limit.Stop()
		select {
		case <-limit.C:
			giveUp(errDrain)
		case <-over:
		}
	})
	defer func() {
		close(over)
		if !unlimited() {
			<-limited
		}
	}()
	for work.Err() == nil {
		if e, ok := q.take(); ok {
			q.deliver(work, e)
			continue
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			if q.empty() {
				return nil
			}
		}
	}
	if n := q.Stats().Waiting; n > 0 {
		q.cfg.Logger.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "events not delivered yet", slog.Int("events", n))
	}
	return nil
}

// Stats returns what q has done so far, and how many events wait.
func (q *queue) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Waiting = q.waiting.Len()
	return s
}

// deliver passes e to the sink until the sink accepts it. If work ends first, e waits again. If the sink panics, the event counts as
// failed, because a retry would panic again.
func (q *queue) deliver(work context.Context, e *Event) {
	returned := false
	defer func() {
		if !returned {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.stats.Failed++
		}
	}()
	err := retry.Do(work, retry.Config{Backoff: q.cfg.Backoff}, func(ctx context.Context) error { return q.sink(ctx, *e) })
	returned = true
	var first bool
	q.mu.Lock()
	switch {
	case err == nil:
		q.stats.Delivered++
	case work.Err() != nil:
		first = q.returnLocked(e)
	default:
		q.stats.Failed++
	}
	q.mu.Unlock()
	q.logDropped(e, first)
	if err != nil && work.Err() == nil {
		q.cfg.Logger.LogAttrs(work, slog.LevelWarn, "event not delivered",
			slog.String("kind", e.About.Kind), slog.String("key", e.About.Key), slog.String("reason", e.Reason),
			slog.Any("error", err))
	}
}

// returnLocked puts e, which was taken, back at the front of the queue. If there is no room, it drops e, and reports whether it is the first
// one since no event waited.
func (q *queue) returnLocked(e *Event) (first bool) {
	el := q.byLife[lifeOf(e)]
	switch {
	case el != nil: // another state has arrived, usually a later one
		q.stats.Merged++
		if held := el.Value.(*Event); held.Count < e.Count {
			*held = *e
		}
	case q.waiting.Len() == q.cfg.Size:
		first = q.dropLocked()
	default:
		q.byLife[lifeOf(e)] = q.waiting.PushFront(e)
	}
	return first
}

func (q *queue) take() (*Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 {
		q.full = false
		return nil, false
	}
	return q.takeLocked(), true
}

// takeLocked removes the event that has waited longest. There must be one.
func (q *queue) takeLocked() *Event {
	e := q.waiting.Remove(q.waiting.Front()).(*Event)
	delete(q.byLife, lifeOf(e))
	return e
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len() == 0
}
