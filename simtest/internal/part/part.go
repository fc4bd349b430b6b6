package part

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/pace"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Part is a part of a system. One field is set.
type Part struct {
	Loop       Loop         // a controller
	Cache      any          // an informer that no controller watches
	Background manager.Part // a part that makes calls by itself
}

// Loop is a controller without its type.
type Loop interface {
	Name() string
	Informers() []controller.Informer
	Connect(ctx context.Context) (disconnect func(), err error)

	// Managed returns the controller, with other informers in place of its own. Each of its reconciles calls wait before it begins.
	Managed(informers []controller.Informer, wait func(context.Context)) manager.Part

	Ready() (keys []string)
	Step(ctx context.Context, key string) string // reconciles a key, and returns the outcome; empty if the key was not ready
	Next() time.Time                             // when a key becomes ready; zero if none does

	Pause()
	Resume()
	Waits() bool // whether a key is ready
	Works() bool // whether a reconcile is in flight
	Begun() int  // how many reconciles have begun
}

// Of returns a controller as a loop.
func Of[K comparable](c *controller.Controller[K]) Loop { return &loop[K]{c} }

type loop[K comparable] struct{ c *controller.Controller[K] }

func (l *loop[K]) Name() string                     { return l.c.Name() }
func (l *loop[K]) Informers() []controller.Informer { return l.c.Informers() }

func (l *loop[K]) Connect(ctx context.Context) (disconnect func(), err error) {
	return l.c.Connect(ctx)
}
func (l *loop[K]) Managed(informers []controller.Informer, wait func(context.Context)) manager.Part {
	return managed[K]{l.c, informers, wait}
}

func (l *loop[K]) Ready() (keys []string) {
	for _, key := range l.c.Ready() {
		keys = append(keys, textOf(key))
	}
	return keys
}

// textOf returns a key as text.
func textOf[K comparable](key K) string {
	if text, ok := any(key).(string); ok {
		return text
	}
	return fmt.Sprint(key)
}

func (l *loop[K]) Step(ctx context.Context, key string) string {
	for _, k := range l.c.Ready() {
		if textOf(k) != key {
			continue
		}
		report, ok := l.c.Step(ctx, k)
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

func (l *loop[K]) Next() (next time.Time) {
	for _, k := range l.c.Snapshot() {
		for _, t := range []time.Time{k.Next, k.QuietUntil} {
			if !t.IsZero() && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

func (l *loop[K]) Pause()  { l.c.Pause() }
func (l *loop[K]) Resume() { l.c.Resume() }

func (l *loop[K]) Waits() bool { return l.has(workqueue.Ready) }
func (l *loop[K]) Works() bool { return l.has(workqueue.InProcess) }

func (l *loop[K]) has(state workqueue.State) bool {
	return slices.ContainsFunc(l.c.Snapshot(), func(k workqueue.KeyInfo[K]) bool { return k.State == state })
}

func (l *loop[K]) Begun() (n int) {
	for _, k := range l.c.Snapshot() {
		if k.State == workqueue.InProcess {
			n++
		}
	}
	for _, ended := range l.c.Stats().Outcomes {
		n += int(ended)
	}
	return n
}

// managed is a controller that a manager runs.
type managed[K comparable] struct {
	*controller.Controller[K]
	informers []controller.Informer
	wait      func(context.Context)
}

// Run has each reconcile wait for its turn.
func (m managed[K]) Run(ctx context.Context) error { return m.Controller.Run(pace.With(ctx, m.wait)) }

// Informers returns those in place of the controller's own.
func (m managed[K]) Informers() []controller.Informer { return m.informers }
