package events

import (
	"container/list"
	"context"
	"fmt"
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

	ring   *list.List // of *Event
	held   map[identity]*list.Element
	limits limits
	stats  Stats // the counters

	running atomic.Bool
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
		r.write = newQueue(cfg.Write, queues)
	}
	if cfg.Store != nil {
		kept, err := store.Open(cfg.Store, "Event", store.Config[Event]{Logger: cfg.Logger})
		if err != nil {
			return nil, fmt.Errorf("events: new recorder: Config.Store: %w", err)
		}
		r.sink = newStoreSink(kept, cfg.Max, cfg.TTL)
		r.store = newQueue(r.sink.Write, queues)
	}
	return r, nil
}

// Name returns Config.Name.
func (r *Recorder) Name() string { return r.cfg.Name }

// Run delivers events to Config.Write and Config.Store until ctx ends. Then it delivers the events that still wait, for at most
// Config.DrainTimeout, and returns nil after all its goroutines have ended. If Config.Write or Config.Store panics, the event counts as
// failed, and the events behind it wait for the next Run. Run drains the other queue and returns the panic as an error. If the recorder is
// already running, the error wraps [ErrRunning]. It may be called again after it has returned.
func (r *Recorder) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return fmt.Errorf("events: run %q: %w", r.cfg.Name, ErrRunning)
	}
	defer r.running.Store(false)
	ctx, stop := context.WithCancel(store.Unfenced(ctx))
	defer stop()
	var g wait.Group
	start := func(run func(context.Context) error) {
		// Delivers or sweeps. It ends with ctx, and Wait below waits for it. If it ends early, because of a panic, it ends the others.
		g.Start(ctx, func(ctx context.Context) error {
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
	<-ctx.Done()
	return g.Wait()
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
		if e := el.Value.(*Event); wanted(e.About) {
			all = append(all, *e)
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
	e, tell := r.recordLocked(id)
	r.mu.Unlock()
	if !tell {
		return
	}
	for _, q := range []*queue{r.write, r.store} {
		if q != nil {
			q.Put(e)
		}
	}
	r.cfg.Sink(e) // may panic, or record
}

// recordLocked returns the current state of the event, and whether to pass it on.
func (r *Recorder) recordLocked(id identity) (e Event, tell bool) {
	now := time.Now() // under the lock, so that the order of the ring is that of the times
	if el, ok := r.held[id]; ok {
		e := el.Value.(*Event)
		e.Count++
		e.Last = now
		r.ring.MoveToBack(el)
		r.stats.Recorded++
		if tell = r.limits.take(id.about, forRepeat, now); !tell {
			r.stats.Untold++
		}
		return *e, tell
	}
	if !r.limits.take(id.about, forNew, now) {
		r.stats.Limited++
		return Event{}, false
	}
	r.stats.Recorded++
	held := &Event{About: id.about, Type: id.kind, Reason: id.reason, Message: id.message, Count: 1, First: now, Last: now}
	r.held[id] = r.ring.PushBack(held)
	if r.ring.Len() > r.cfg.Size {
		gone := r.ring.Remove(r.ring.Front()).(*Event)
		delete(r.held, identityOf(gone))
	}
	return *held, true
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
