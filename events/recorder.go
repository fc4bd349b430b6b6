package events

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

// Recorder records events, merges repeats, limits floods, and keeps the newest events. Use [NewRecorder] to make one. Several
// goroutines may call its methods concurrently.
//
// Add it to a manager at stage manager.Outer, so that it also delivers the last events of the other parts. Only Config.Write and
// Config.Store need Run. Without Run, a Recorder records, and events for Write and Store wait.
type Recorder struct {
	cfg Config

	write, store *queue // nil if there is none
	sink         *storeSink

	mu sync.Mutex

	// mu guards the following. Invariants:
	//  1. ring and held have the same events, at most cfg.Size, each in held under its own identity.
	//  2. ring is in the order of Last, oldest first.
	//  3. behind is the number of events in ring that are.

	ring   *list.List // of *heldEvent
	held   map[identity]*list.Element
	behind int
	limits limits
	stats  Stats // the counters

	running atomic.Bool
}

// heldEvent is an event in the ring.
type heldEvent struct {
	Event
	behind bool // Write and Store do not have its last count, because a repeat was above the limit
}

// NewRecorder returns an empty recorder. The error names each field of cfg that is out of its bounds, or says why cfg.Store cannot
// be opened.
func NewRecorder(cfg Config) (*Recorder, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("events: new recorder: %w", err)
	}
	cfg = cfg.withDefaults()
	r := &Recorder{cfg: cfg, ring: list.New(), held: make(map[identity]*list.Element), limits: newLimits(cfg)}
	queues := queueConfig{Size: cfg.QueueSize, Backoff: cfg.Backoff, DrainTimeout: cfg.DrainTimeout, Logger: cfg.Logger}
	if cfg.Write != nil {
		queues.Name = "Write"
		r.write = newQueue(cfg.Write, queues)
	}
	if cfg.Store != nil {
		kept, err := store.Open(cfg.Store, "Event", store.Config[Event]{})
		if err != nil {
			return nil, fmt.Errorf("events: new recorder: Config.Store: %w", err)
		}
		r.sink = newStoreSink(kept, cfg.Max, cfg.TTL)
		queues.Name = "Store"
		r.store = newQueue(r.sink.Write, queues)
	}
	return r, nil
}

// Name returns Config.Name.
func (r *Recorder) Name() string { return r.cfg.Name }

// Run delivers events to Config.Write and Config.Store until ctx ends. Then it delivers the events that still wait, and the last counts of
// those whose repeats were above the limit, for at most Config.DrainTimeout, and returns nil after all its goroutines have ended. If
// Config.Write or Config.Store panics, the event counts as failed, and the events behind it wait for the next Run. Run drains the other queue
// and returns the panic as an error. If the recorder is already running, the error wraps [ErrRunning]. It may be called again after it has
// returned.
func (r *Recorder) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return fmt.Errorf("events: run %q: %w", r.cfg.Name, ErrRunning)
	}
	defer r.running.Store(false)
	// It ends a little after ctx: when the queues have the last counts, so that they drain these too.
	work, stop := context.WithCancel(context.WithoutCancel(store.Unfenced(ctx)))
	defer stop()
	var g wait.Group
	start := func(run func(context.Context) error) {
		// Delivers, sweeps, or reports counts. It ends with work, and Wait below waits for it. If it ends early, because of a panic, it ends the
		// others.
		g.Start(work, func(ctx context.Context) error {
			defer stop()
			return run(ctx)
		})
	}
	if r.write != nil {
		start(r.write.Run)
	}
	if r.store != nil {
		start(r.store.Run)
		start(func(ctx context.Context) error { r.sink.sweepNowAndThen(ctx, r.cfg.Logger); return nil })
	}
	if r.write != nil || r.store != nil {
		start(func(ctx context.Context) error { r.reportNowAndThen(ctx); return nil })
	}
	select {
	case <-ctx.Done():
	case <-work.Done():
	}
	r.reportLastCounts(func(*heldEvent) bool { return true })
	stop()
	return g.Wait()
}

// reportNowAndThen reports the last counts of events as soon as the limits allow, until ctx ends.
func (r *Recorder) reportNowAndThen(ctx context.Context) {
	tick := time.NewTicker(max(r.cfg.Refill, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		r.reportLastCounts(func(e *heldEvent) bool {
			ok, _ := r.limits.take(e.About, forRepeat.of(e.Type), time.Now())
			return ok
		})
	}
}

// reportLastCounts passes the events whose last count Write and Store do not have to them, unless allowed returns false. allowed is called
// with the lock.
func (r *Recorder) reportLastCounts(allowed func(*heldEvent) bool) {
	var late []Event
	r.mu.Lock()
	for el := r.ring.Front(); el != nil && r.behind > 0; el = el.Next() {
		if e := el.Value.(*heldEvent); e.behind && allowed(e) {
			r.reportedLocked(e)
			late = append(late, e.Event)
		}
	}
	r.mu.Unlock()
	for _, e := range late {
		r.put(e)
	}
}

// reportedLocked records that Write and Store get the last count of e.
func (r *Recorder) reportedLocked(e *heldEvent) {
	if e.behind {
		e.behind = false
		r.behind--
	}
}

// put passes a state of an event to Write and Store.
func (r *Recorder) put(e Event) {
	for _, q := range []*queue{r.write, r.store} {
		if q != nil {
			q.Put(e)
		}
	}
}

// Normal records that something was done about an object.
func (r *Recorder) Normal(about store.Ref, reason, message string) {
	r.record(identity{about, Normal, reason, message})
}

// Warning records that something could not be done about an object, or went wrong.
func (r *Recorder) Warning(about store.Ref, reason, message string) {
	r.record(identity{about, Warning, reason, message})
}

// Events returns copies of all events in memory, oldest first.
func (r *Recorder) Events() []Event {
	return r.collect(func(store.Ref) bool { return true })
}

// EventsFor returns copies of the events in memory about one object, oldest first. If the UID is empty, it returns the events
// about all objects that have had the key.
func (r *Recorder) EventsFor(about store.Ref) []Event {
	return r.collect(func(ref store.Ref) bool {
		return ref.Kind == about.Kind && ref.Key == about.Key && (about.UID == "" || ref.UID == about.UID)
	})
}

func (r *Recorder) collect(wanted func(store.Ref) bool) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Event, 0, r.ring.Len())
	for el := r.ring.Front(); el != nil; el = el.Next() {
		if e := el.Value.(*heldEvent); wanted(e.About) {
			all = append(all, e.Event)
		}
	}
	return all
}

// Stats returns counters of what r has done, and how much it holds now.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	s := r.stats
	s.Held, s.Objects = r.ring.Len(), r.limits.order.Len()
	r.mu.Unlock()
	if r.write != nil {
		s.Write = r.write.Stats()
	}
	if r.store != nil {
		s.Store = r.store.Stats()
	}
	return s
}

func (r *Recorder) record(id identity) {
	id.message = shorten(id.message)
	r.mu.Lock()
	e, fate, evicted := r.recordLocked(id)
	r.mu.Unlock()
	if evicted != nil {
		r.put(evicted.Event)
	}
	switch fate {
	case deliver:
		r.put(e)
		r.cfg.Sink(e) // may panic, or record
	case dropAndLog:
		r.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "event dropped: too many new warnings about one object", attrsOf(&e)...)
	}
}

// fate is what to do with a call.
type fate int

const (
	nothing    fate = iota
	deliver         // pass the event to Sink, Write, and Store
	dropAndLog      // log that the event is dropped
)

// recordLocked returns the current state of the event, and what to do with it. evicted is an event that made room, if Write and Store do not
// have its last count.
func (r *Recorder) recordLocked(id identity) (_ Event, _ fate, evicted *heldEvent) {
	now := time.Now() // under the lock, so that the order of the ring is that of the times
	if el, ok := r.held[id]; ok {
		e := el.Value.(*heldEvent)
		e.Count++
		e.Last = now
		r.ring.MoveToBack(el)
		r.stats.Recorded++
		if ok, _ := r.limits.take(id.about, forRepeat.of(id.kind), now); ok {
			r.reportedLocked(e)
			return e.Event, deliver, nil
		}
		r.stats.Untold++
		if !e.behind {
			e.behind = true
			r.behind++
		}
		return e.Event, nothing, nil
	}
	e := &heldEvent{Event: Event{About: id.about, Type: id.kind, Reason: id.reason, Message: id.message, Count: 1, First: now, Last: now}}
	if ok, first := r.limits.take(id.about, forNew.of(id.kind), now); !ok {
		r.stats.Limited++
		if first && id.kind == Warning {
			return e.Event, dropAndLog, nil
		}
		return e.Event, nothing, nil
	}
	r.stats.Recorded++
	r.held[id] = r.ring.PushBack(e)
	if r.ring.Len() > r.cfg.Size {
		oldest := r.ring.Remove(r.ring.Front()).(*heldEvent)
		delete(r.held, identityOf(&oldest.Event))
		if oldest.behind {
			r.reportedLocked(oldest)
			evicted = oldest
		}
	}
	return e.Event, deliver, evicted
}

// identity is the fields that all repeats share.
type identity struct {
	about           store.Ref
	kind            Type
	reason, message string
}

func identityOf(e *Event) identity { return identity{e.About, e.Type, e.Reason, e.Message} }

// maxMessage is how many bytes of a message are kept.
const maxMessage = 1024

// shorten returns the part of a message that is kept.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len("...")
	for back := 0; back < utf8.UTFMax && !utf8.RuneStart(message[end]); back++ { // do not split a character
		end--
	}
	return message[:end] + "..."
}
