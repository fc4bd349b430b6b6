package simtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/workqueue"
)

// loop is a controller without the type of its keys. It starts nothing by itself: a driver decides when a reconcile begins.
type loop interface {
	Name() string
	Informers() []controller.Informer
	Connect(ctx context.Context) (disconnect func(), err error)
	Pause()
	Resume()

	// These are for a system with Slots.
	Share(slots controller.Slots)
	Prepare(ctx context.Context, slot int) error
	Acquired(slot int)
	Revoked(slot int)
	slotOf(key string) (slot int, ok bool)

	// managed returns the controller for a manager, with other informers in place of its own. Each of its reconciles calls wait before it
	// begins.
	managed(informers []controller.Informer, wait func(context.Context)) manager.Part

	readyKeys() []string
	step(ctx context.Context, key string) string // reconciles a key, and returns the outcome; empty if the key was not ready

	// outlook returns when a key becomes ready by itself, or zero if none does, and whether a reconcile is in flight.
	outlook() (next time.Time, inFlight bool)

	// lastReady returns how many keys are ready, even while the controller is paused. If there are several, and keys are strings, hurry makes the last
	// of them the first.
	lastReady() (n int, hurry func())

	begun() int           // how many reconciles have begun
	panics() int          // how many reconciles have panicked
	failed() []failingKey // the keys whose last attempt has failed, or has not finished
}

// failingKey is a key whose last attempt has failed, or has not finished (retry.NotYet).
type failingKey struct {
	key      string
	failures int
	reason   string    // the last error
	next     time.Time // when it is tried again; zero if it is parked
}

type controllerLoop[K comparable] struct{ *controller.Controller[K] }

func (l controllerLoop[K]) managed(informers []controller.Informer, wait func(context.Context)) manager.Part {
	return managedLoop[K]{l.Controller, informers, wait}
}

func (l controllerLoop[K]) slotOf(key string) (slot int, ok bool) { return l.Inspect().Slot(key) }

func (l controllerLoop[K]) readyKeys() (keys []string) {
	for _, key := range l.Ready() {
		keys = append(keys, keyText(key))
	}
	return keys
}

func keyText[K comparable](key K) string {
	if text, ok := any(key).(string); ok {
		return text
	}
	return fmt.Sprint(key)
}

func (l controllerLoop[K]) step(ctx context.Context, key string) string {
	for _, k := range l.Ready() {
		if keyText(k) != key {
			continue
		}
		report, ok := l.Step(ctx, k)
		switch {
		case !ok:
			return ""
		case report.Err != nil:
			return fmt.Sprintf("%s: %v", report.Outcome, report.Err)
		default:
			return report.Outcome.String()
		}
	}
	return ""
}

func (l controllerLoop[K]) outlook() (next time.Time, inFlight bool) {
	for k := range l.Inspect().Keys() {
		inFlight = inFlight || k.State == workqueue.InProcess
		var expiry time.Time
		if k.HeldBy != "" && k.HeldUntil.After(time.Now()) {
			expiry = k.HeldUntil
		}
		next = earliest(next, k.Next, k.QuietUntil, expiry)
	}
	return next, inFlight
}

// earliest returns the earliest of times, apart from those that are zero.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (l controllerLoop[K]) lastReady() (n int, hurry func()) {
	highest := 0
	var last controller.KeyInfo
	for k := range l.Inspect().Keys() {
		if k.State != workqueue.Ready {
			continue
		}
		n++
		highest = max(highest, k.Priority)
		if n == 1 || cmp.Or(cmp.Compare(last.Priority, k.Priority), k.Since.Compare(last.Since), strings.Compare(k.Key, last.Key)) > 0 {
			last = k
		}
	}
	if key, isText := any(last.Key).(K); isText && n > 1 {
		hurry = func() { l.AddWith(key, controller.AddOptions{Priority: highest + 1}) }
	}
	return n, hurry
}

func (l controllerLoop[K]) begun() (n int) {
	for k := range l.Inspect().Keys() {
		if k.State == workqueue.InProcess {
			n++
		}
	}
	for _, ended := range l.Stats().Outcomes {
		n += int(ended)
	}
	return n
}

func (l controllerLoop[K]) panics() int { return int(l.Stats().Outcomes[controller.Panicked]) }

func (l controllerLoop[K]) failed() (keys []failingKey) {
	for k := range l.Inspect().Keys() {
		f := failingKey{key: k.Key, failures: k.Failures}
		switch {
		case k.State == workqueue.Parked:
		case k.State == workqueue.Delayed && (k.Failures > 0 || len(k.Reasons) > 0) && k.HeldBy == "":
			f.next = k.Next
		default:
			continue
		}
		if n := len(k.Reasons); n > 0 {
			f.reason = k.Reasons[n-1].Text
		}
		keys = append(keys, f)
	}
	slices.SortFunc(keys, func(a, b failingKey) int { return strings.Compare(a.key, b.key) })
	return keys
}

// managedLoop is a controller that a manager runs.
type managedLoop[K comparable] struct {
	*controller.Controller[K]
	informers []controller.Informer
	wait      func(context.Context)
}

// Run has each reconcile wait for its turn.
func (m managedLoop[K]) Run(ctx context.Context) error {
	return m.Controller.Run(reconcile.WithPace(ctx, m.wait))
}

// Informers returns those in place of the controller's own.
func (m managedLoop[K]) Informers() []controller.Informer { return m.informers }
