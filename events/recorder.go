package events

import (
	"container/list"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

// Recorder takes down events, merges repeats, holds back floods, and remembers the newest. Use [NewRecorder] to make one. Its
// methods may be called by several goroutines at once.
type Recorder struct {
	cfg Config

	mu sync.Mutex

	// mu guards the following. Invariants:
	//  1. ring and held have the same events, at most cfg.Size, each in held under its own identity.
	//  2. ring is in the order of Last, oldest first.

	ring   *list.List // of *Event
	held   map[identity]*list.Element
	limits limits
	stats  Stats // the counters
}

// NewRecorder returns a recorder that holds nothing yet. The error names each field of cfg that is out of its bounds.
func NewRecorder(cfg Config) (*Recorder, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("events: new recorder: %w", err)
	}
	cfg = cfg.withDefaults()
	return &Recorder{cfg: cfg, ring: list.New(), held: make(map[identity]*list.Element), limits: newLimits(cfg)}, nil
}

// Normal records that something was done about an object.
func (r *Recorder) Normal(about Ref, reason, message string) {
	r.record(identity{about, Normal, reason, message})
}

// Warning records that something could not be done about an object, or not as it should be.
func (r *Recorder) Warning(about Ref, reason, message string) {
	r.record(identity{about, Warning, reason, message})
}

// Events returns a copy of all events that are held, oldest first.
func (r *Recorder) Events() []Event {
	return r.collect(func(Ref) bool { return true })
}

// EventsFor returns a copy of the events that are held about one object, oldest first. An empty UID stands for any, so that
// it gives the events of all lives of a key.
func (r *Recorder) EventsFor(about Ref) []Event {
	return r.collect(func(ref Ref) bool {
		return ref.Kind == about.Kind && ref.Key == about.Key && (about.UID == "" || ref.UID == about.UID)
	})
}

func (r *Recorder) collect(wanted func(Ref) bool) []Event {
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

// Stats returns what r has done so far, and what it holds.
func (r *Recorder) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Held, s.Objects = r.ring.Len(), r.limits.order.Len()
	return s
}

func (r *Recorder) record(id identity) {
	id.message = shorten(id.message)
	r.mu.Lock()
	e, tell := r.recordLocked(id)
	r.mu.Unlock()
	if tell {
		r.cfg.Sink(e)
	}
}

// recordLocked returns the event as it stands now, and whether to tell the sink of it.
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

// identity is what repeats have in common.
type identity struct {
	about           Ref
	kind            Type
	reason, message string
}

func identityOf(e *Event) identity { return identity{e.About, e.Type, e.Reason, e.Message} }

// maxMessage is how many bytes of a message are kept.
const maxMessage = 1024

// shorten returns what is kept of a message.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len("...")
	for back := 0; back < utf8.UTFMax && !utf8.RuneStart(message[end]); back++ { // no half of a letter
		end--
	}
	return message[:end] + "..."
}
