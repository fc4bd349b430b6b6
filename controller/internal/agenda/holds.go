package agenda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Holds has the held keys. The zero value is ready for use. It is safe for concurrent use.
type Holds[K comparable] struct {
	diverting atomic.Bool // a Run drains; written with mu held
	pausing   atomic.Bool // paused is not empty; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. places has the place of each key in later, and there are none unless diverting.
	//  2. n counts the keys of later and of waiting, those of paused that are due, and those that are just being added
	//     to the queue.
	//  3. empty is nil when n is 0.
	//  4. due and on match their comments.
	later   []Later[K]
	places  map[K]int
	paused  map[K]*pause
	waiting map[K]*Wait
	due     line    // those of paused that are due
	on      []*line // of the keys of waiting, by what they wait for
	n       int
	changes uint64        // of n
	empty   chan struct{} // closed, and dropped, when n falls to 0; nil without a waiter
}

// Later is a key for the next Run.
type Later[K comparable] struct {
	Key      K
	Priority int
	Reason   string
	Since    time.Time // when it was left
}

// pause is the pause of a key.
type pause struct {
	since time.Time
	at    *place // in due; nil if the key is not due
}

// Wait describes a key whose expectations are not met.
type Wait struct {
	Number uint64    // unique
	Until  time.Time // when the expectations expire; zero for never
	On     int       // the expectation that it waits for, as the caller numbers them

	at *place // in on
}

// Held counts the keys that are held, by what holds them.
type Held struct {
	All    int     // including those that are being added to the queue
	Paused Group   // due, and paused
	Later  Group   // left to the next Run
	On     []Group // by the number of the expectation that they wait for; a missing number has none
}

// Group is the keys that one thing holds.
type Group struct {
	Keys  int
	Since time.Time // when the first of them became held; zero if there is none
}

// Held returns the counts, all taken at one moment.
func (h *Holds[K]) Held() Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := Held{All: h.n, Paused: h.due.group(), On: make([]Group, len(h.on))}
	if len(h.later) > 0 {
		held.Later = Group{len(h.later), h.later[0].Since}
	}
	for i, l := range h.on {
		held.On[i] = l.group()
	}
	return held
}

// Info describes what holds one key, and since when. The zero value is a key that is not held, and a zero time is never.
type Info struct {
	Paused  time.Time // by Pause
	Due     time.Time // paused, and to be reconciled
	Later   time.Time // left to the next Run
	Waiting time.Time
	Until   time.Time // of Waiting: as in Wait
	On      int       // of Waiting: as in Wait
}

// Of returns what holds key.
func (h *Holds[K]) Of(key K) Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ofLocked(key)
}

// Each returns what holds each key that is held or paused.
func (h *Holds[K]) Each() map[K]Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[K]Info, len(h.paused)+len(h.waiting)+len(h.later))
	for key := range h.paused {
		all[key] = h.ofLocked(key)
	}
	for key := range h.waiting {
		all[key] = h.ofLocked(key)
	}
	for key := range h.places {
		all[key] = h.ofLocked(key)
	}
	return all
}

func (h *Holds[K]) ofLocked(key K) (info Info) {
	if p, ok := h.paused[key]; ok {
		info.Paused, info.Due = p.since, since(p.at)
	}
	if i, ok := h.places[key]; ok {
		info.Later = h.later[i].Since
	}
	if w, ok := h.waiting[key]; ok {
		info.Waiting, info.Until, info.On = since(w.at), w.Until, w.On
	}
	return info
}

// lineLocked returns the line of the keys that wait for an expectation.
func (h *Holds[K]) lineLocked(on int) *line {
	for len(h.on) <= on {
		h.on = append(h.on, &line{})
	}
	return h.on[on]
}

// Len returns the number of keys that are held.
func (h *Holds[K]) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// WaitEmpty waits until nothing is held, and returns the number of changes until then.
func (h *Holds[K]) WaitEmpty(ctx context.Context) (changes uint64, err error) {
	h.mu.Lock()
	for h.n > 0 {
		if h.empty == nil {
			h.empty = make(chan struct{})
		}
		empty := h.empty
		h.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	return h.changes, nil
}

// Unchanged reports whether nothing was held since WaitEmpty returned changes.
func (h *Holds[K]) Unchanged(changes uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes == changes
}

// Release records that n keys returned by [Holds.Unpause] or [Holds.Undivert] are in the queue.
func (h *Holds[K]) Release(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.countLocked(-n)
}

func (h *Holds[K]) countLocked(delta int) {
	h.n += delta
	h.changes++
	if h.n == 0 && h.empty != nil {
		close(h.empty)
		h.empty = nil
	}
}

// Pause makes Pausing hold key, until Unpause.
func (h *Holds[K]) Pause(key K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused == nil {
		h.paused = make(map[K]*pause)
	}
	if h.paused[key] == nil {
		h.paused[key] = &pause{since: time.Now()}
	}
	h.pausing.Store(true)
}

// Pausing reports whether key, which is due, is paused. If so, Pausing holds it.
func (h *Holds[K]) Pausing(key K) bool {
	if !h.pausing.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p, paused := h.paused[key]
	if paused && p.at == nil {
		p.at = h.due.join()
		h.countLocked(+1)
	}
	return paused
}

// Unpause ends the pause of key. It returns true if the key was held: then the caller adds and releases it.
func (h *Holds[K]) Unpause(key K) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, paused := h.paused[key]
	if !paused {
		return false
	}
	if p.at != nil {
		h.due.leave(p.at)
	}
	delete(h.paused, key)
	h.pausing.Store(len(h.paused) > 0)
	return p.at != nil
}

// Divert makes Leave accept keys: a Run drains, and later adds must not keep it from ending.
func (h *Holds[K]) Divert() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places = make(map[K]int)
	h.diverting.Store(true)
}

// Diverting reports whether Leave accepts keys.
func (h *Holds[K]) Diverting() bool { return h.diverting.Load() }

// Leave leaves a key to the next Run. It returns false if no Run drains.
func (h *Holds[K]) Leave(key K, priority int, reason string) bool {
	if !h.diverting.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.diverting.Load() { // the drain has ended since
		return false
	}
	if i, ok := h.places[key]; ok {
		known := &h.later[i]
		known.Priority, known.Reason = max(known.Priority, priority), cmp.Or(reason, known.Reason)
		return true
	}
	h.places[key] = len(h.later)
	h.later = append(h.later, Later[K]{key, priority, reason, time.Now()})
	h.countLocked(+1)
	return true
}

// Undivert returns the keys that were left to the next Run, in order of arrival. They are held until they are released. From now on Leave
// accepts none.
func (h *Holds[K]) Undivert() []Later[K] {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := h.later
	h.later, h.places = nil, nil
	h.diverting.Store(false)
	return keys
}

// Wait holds key, which waits for an expectation that expires at a time, and returns the number of the wait. A key that already waits for
// that expectation keeps its place.
func (h *Holds[K]) Wait(key K, until time.Time, on int) (number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(map[K]*Wait)
	}
	w, ok := h.waiting[key]
	switch {
	case !ok:
		w = &Wait{at: h.lineLocked(on).join()}
		h.waiting[key] = w
		h.countLocked(+1)
	case w.On != on:
		h.lineLocked(w.On).leave(w.at)
		w.at = h.lineLocked(on).join()
		fallthrough
	default:
		h.countLocked(0)
	}
	w.Number, w.Until, w.On = h.changes, until, on
	return w.Number
}

// Unwait ends the wait of key, if there is one.
func (h *Holds[K]) Unwait(key K) (Wait, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, ok := h.waiting[key]
	if !ok {
		return Wait{}, false
	}
	h.unwaitLocked(key, w)
	return *w, true
}

// UnwaitIf ends the wait of key if it is the one with that number.
func (h *Holds[K]) UnwaitIf(key K, number uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, ok := h.waiting[key]
	if !ok || w.Number != number {
		return false
	}
	h.unwaitLocked(key, w)
	return true
}

// unwaitLocked ends the wait of key, which is w.
func (h *Holds[K]) unwaitLocked(key K, w *Wait) {
	delete(h.waiting, key)
	h.lineLocked(w.On).leave(w.at)
	h.countLocked(-1)
}

// Waiting returns the number of the wait of key, if it waits.
func (h *Holds[K]) Waiting(key K) (number uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w, ok := h.waiting[key]
	if !ok {
		return 0, false
	}
	return w.Number, true
}

// AllWaiting returns the keys that wait, in the order in which they were held.
func (h *Holds[K]) AllWaiting() []K {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make([]K, 0, len(h.waiting))
	for key := range h.waiting {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(h.waiting[a].Number, h.waiting[b].Number) })
	return keys
}

// CheckInvariants returns an error if an invariant at the fields does not hold. It is for tests, while no key is being released.
func (h *Holds[K]) CheckInvariants() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	due := 0
	for _, p := range h.paused {
		if p.at != nil {
			due++
		}
	}
	on := make([]int, len(h.on))
	for _, w := range h.waiting {
		on[w.On]++
	}
	errs := []error{h.due.check(due)}
	for i, l := range h.on {
		errs = append(errs, l.check(on[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	n := len(h.later) + len(h.waiting) + due
	for i, k := range h.later {
		if h.places[k.Key] != i {
			return fmt.Errorf("agenda: the place of %v is %d, not %d", k.Key, h.places[k.Key], i)
		}
	}
	switch {
	case len(h.places) != len(h.later):
		return fmt.Errorf("agenda: %d places of %d keys", len(h.places), len(h.later))
	case !h.diverting.Load() && len(h.later) > 0:
		return errors.New("agenda: keys for the next Run, and none drains")
	case h.pausing.Load() != (len(h.paused) > 0):
		return errors.New("agenda: pausing is wrong")
	case n != h.n:
		return fmt.Errorf("agenda: %d keys are held, counted %d", n, h.n)
	case n == 0 && h.empty != nil:
		return errors.New("agenda: empty is set although no key is held")
	}
	return nil
}
