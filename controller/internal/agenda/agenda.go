package agenda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/mirror"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Agenda has the keys that are due. It is safe for concurrent use.
type Agenda[K comparable] struct {
	Causes Causes[K]

	queue     *workqueue.Queue[K]
	holds     Holds[K]
	expected  All[K]   // the expectations of the caller, and then the mirrors
	reasons   []string // the names of expected in Held
	own       bool     // the caller gave expectations
	mirrors   *mirror.Mirrors[K]
	scheduled atomic.Bool // something was scheduled at least once, other than a retry
}

// New returns the agenda of the keys in queue. A key waits for the given expectations, and for the mirrors.
func New[K comparable](queue *workqueue.Queue[K], expected []Expectations[K], mirrors *mirror.Mirrors[K]) *Agenda[K] {
	a := &Agenda[K]{queue: queue, own: len(expected) > 0, mirrors: mirrors}
	for i, e := range expected {
		name := fmt.Sprint(i + 1)
		if named, ok := e.(interface{ Name() string }); ok {
			name = cmp.Or(named.Name(), name)
		}
		a.expected, a.reasons = append(a.expected, e), append(a.reasons, "expectations "+name)
	}
	for i, name := range mirrors.Names() {
		a.expected, a.reasons = append(a.expected, mirrors.Each()[i]), append(a.reasons, "cache "+name)
	}
	return a
}

// Add adds key. It returns false if a Run drains: then key is left to the next Run.
func (a *Agenda[K]) Add(key K, priority int, reason string) (queued bool) {
	if a.holds.Leave(key, priority, reason) {
		return false
	}
	if priority == 0 && reason == "" {
		a.queue.Add(key)
	} else {
		a.queue.AddWith(key, workqueue.AddOptions{Priority: priority, Reason: reason})
	}
	return true
}

// Admits reports whether key, which was taken from the queue, may be reconciled now. Otherwise it is held. expired is true if the
// key had to wait for expectations that have expired and are not met.
func (a *Agenda[K]) Admits(key K) (admitted, expired bool) {
	if a.scheduled.Load() {
		// This reconcile replaces everything that is scheduled for the key or was added so far.
		a.queue.Cancel(key)
	}
	if a.holds.Pausing(key) {
		return false, false
	}
	if !a.own && !a.mirrors.Active() {
		return true, false
	}
	until, on, waiting := a.expected.Expires(key)
	if !waiting {
		h, ok := a.holds.Unwait(key)
		return true, ok && !h.Until.IsZero() && !time.Now().Before(h.Until)
	}
	number := a.holds.Wait(key, until, on)
	// The notification may have come before key was held.
	if until, _, waiting = a.expected.Expires(key); !waiting {
		// If key has been released since, it is in the queue again, and comes back.
		return a.holds.UnwaitIf(key, number), false
	}
	if !until.IsZero() {
		a.After(key, time.Until(until), "")
	}
	return false, false
}

// never is a delay that does not end in this Run.
const never = time.Duration(1 << 62)

// Again makes key, which is in flight, reconcile again at once.
func (a *Agenda[K]) Again(key K) {
	a.queue.AddWith(key, workqueue.AddOptions{After: -1}) // not delayed by Debounce
}

// After schedules key, which is in flight, to be reconciled after d, or by the next Run if this one drains.
func (a *Agenda[K]) After(key K, d time.Duration, reason string) {
	if !a.scheduled.Load() {
		a.scheduled.Store(true)
	}
	a.queue.AddWith(key, workqueue.AddOptions{After: a.inThisRun(d), Policy: workqueue.Replace, Reason: reason})
}

// NextRun leaves key, which is in flight, to the next Run, even if this one continues.
func (a *Agenda[K]) NextRun(key K) { a.After(key, never, "") }

// Retry schedules the next attempt of key, which is in flight and has failed, after d, or by the next Run if this one drains.
func (a *Agenda[K]) Retry(key K, d time.Duration, reason string) {
	// A negative delay means none; with zero, the queue would choose one.
	d = cmp.Or(a.inThisRun(d), -1)
	a.queue.AddWith(key, workqueue.AddOptions{RateLimited: true, After: d, Policy: workqueue.Replace, Reason: reason})
}

// Park parks key, which is in flight.
func (a *Agenda[K]) Park(key K, reason string) {
	a.queue.AddWith(key, workqueue.AddOptions{Final: true, Reason: reason})
}

// inThisRun returns d, or never if this Run drains: then it leaves the key to the next Run.
func (a *Agenda[K]) inThisRun(d time.Duration) time.Duration {
	if a.holds.Diverting() { // even if d is 0, or a key that always fails would keep Run from ending
		return never
	}
	return d
}

// Pause makes Admits hold key until Resume.
func (a *Agenda[K]) Pause(key K) { a.holds.Pause(key) }

// Resume ends the pause of key, and adds it if it was held.
func (a *Agenda[K]) Resume(key K) {
	if a.holds.Unpause(key) {
		a.Add(key, 0, "")
		a.holds.Release(1)
	}
}

// Start makes the keys ready that the last Run or steps left, and then each key whose expectations are met, until end is called.
func (a *Agenda[K]) Start() (end func()) {
	end = a.expected.Notify(a.released)
	a.ReleaseMet() // expectations that have already been met
	if a.scheduled.Load() {
		for _, k := range a.queue.Snapshot() {
			if k.State == workqueue.Delayed && time.Until(k.Next) > never/2 {
				a.Again(k.Key)
			}
		}
	}
	return end
}

// released adds key to the queue if it is held.
func (a *Agenda[K]) released(key K) {
	if number, ok := a.holds.Waiting(key); ok {
		a.Add(key, 0, "")
		a.holds.UnwaitIf(key, number)
	}
}

// ReleaseMet adds the held keys whose expectations are met.
func (a *Agenda[K]) ReleaseMet() {
	for _, key := range a.holds.AllWaiting() {
		if _, _, waiting := a.expected.Expires(key); !waiting {
			a.released(key)
		}
	}
}

// Divert leaves to the next Run all keys that are scheduled, and those that are added from now on.
func (a *Agenda[K]) Divert() {
	a.holds.Divert()
	a.postpone()
}

// postpone leaves all scheduled keys to the next Run.
func (a *Agenda[K]) postpone() {
	for _, k := range a.queue.Snapshot() {
		if k.State == workqueue.Delayed {
			a.holds.Leave(k.Key, 0, "")
			a.queue.Cancel(k.Key)
		}
	}
}

// HandOver makes ready all keys that are left to the next Run, and returns those that were ready before. From now on, Add adds to
// the queue again.
func (a *Agenda[K]) HandOver() (ready []K) {
	for _, k := range a.queue.Snapshot() {
		if k.State == workqueue.Ready {
			ready = append(ready, k.Key)
		}
	}
	for _, key := range a.holds.AllWaiting() {
		a.released(key)
	}
	a.postpone()
	keys := a.holds.Undivert()
	for _, k := range keys {
		a.Add(k.Key, k.Priority, k.Reason)
	}
	a.holds.Release(len(keys))
	return ready
}

// WaitIdle waits for a moment with no key ready, in flight, or held.
func (a *Agenda[K]) WaitIdle(ctx context.Context) error {
	for {
		changes, err := a.holds.WaitEmpty(ctx)
		if err != nil {
			return err
		}
		if err = a.queue.WaitIdle(ctx); err != nil {
			return err
		}
		// Nothing was held while the queue became idle. Otherwise a key may have moved from one to the other unseen.
		if a.holds.Unchanged(changes) {
			return nil
		}
	}
}

// The reasons in Held and Key for holding a key, besides expectations.
const (
	byPause = "pause"
	byDrain = "drain"
)

// Held returns how many keys are held, by what, and how long the first of those has been held: see controller.Stats.
func (a *Agenda[K]) Held() (all int, by map[string]int, oldest map[string]time.Duration) {
	held := a.holds.Held()
	by, oldest = make(map[string]int), make(map[string]time.Duration)
	add := func(reason string, g Group) { // two may have the same name
		age := time.Duration(0)
		if g.Keys > 0 {
			age = time.Since(g.Since)
		}
		by[reason] += g.Keys
		oldest[reason] = max(oldest[reason], age)
	}
	add(byPause, held.Paused)
	add(byDrain, held.Later)
	for i, reason := range a.reasons {
		var g Group
		if i < len(held.On) {
			g = held.On[i]
		}
		add(reason, g)
	}
	return held.All, by, oldest
}

// Key is what is known about a key. Its State is zero if the key is not in the queue. For the other fields see controller.KeyInfo.
type Key[K comparable] struct {
	workqueue.KeyInfo[K]

	PausedSince time.Time // zero if it is not paused
	HeldBy      string
	HeldUntil   time.Time
}

// Of returns what is known about key.
func (a *Agenda[K]) Of(key K) Key[K] {
	info, _ := a.queue.Info(key)
	info.Key = key
	return a.describe(info, a.holds.Of(key))
}

// All iterates over the keys that the queue or a hold knows, each as of a different moment. A key that changes during the iteration may be
// yielded twice, or not at all.
func (a *Agenda[K]) All() iter.Seq[Key[K]] {
	return func(yield func(Key[K]) bool) {
		held := a.holds.Each()
		for info := range a.queue.All() {
			h := held[info.Key]
			delete(held, info.Key)
			if !yield(a.describe(info, h)) {
				return
			}
		}
		for key, h := range held {
			if !yield(a.describe(workqueue.KeyInfo[K]{Key: key}, h)) {
				return
			}
		}
	}
}

func (a *Agenda[K]) describe(info workqueue.KeyInfo[K], h Info) Key[K] {
	k := Key[K]{KeyInfo: info, PausedSince: h.Paused}
	var since time.Time
	switch {
	case !h.Due.IsZero():
		k.HeldBy, since = byPause, h.Due
	case !h.Later.IsZero():
		k.HeldBy, since = byDrain, h.Later
	case !h.Waiting.IsZero():
		k.HeldBy, k.HeldUntil, since = a.reasons[h.On], h.Until, h.Waiting
	case info.State == workqueue.Delayed && time.Until(info.Next) > never/2:
		k.HeldBy, k.Next = "next run", time.Time{} // delayed since the fenced write
	case info.State == 0:
		since = h.Paused
	}
	// A held key that has just been added is ready, or in flight, until it is held again.
	if !since.IsZero() && info.State != workqueue.Ready && info.State != workqueue.InProcess {
		k.Since = since
	}
	return k
}

// CheckInvariants returns an error if an invariant at the fields does not hold, or keys are left to the next Run although none is running.
// It is for tests.
func (a *Agenda[K]) CheckInvariants(running bool) error {
	if !running && a.holds.Diverting() {
		return errors.New("agenda: keys are left to the next run without a run")
	}
	return errors.Join(a.holds.CheckInvariants(), a.Causes.CheckInvariants())
}
