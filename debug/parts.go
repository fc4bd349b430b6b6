package debug

import (
	"reflect"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/workqueue"
)

// The parts that the page can show, as interfaces, because most of their types have parameters.
type (
	aController interface {
		Stats() controller.Stats
		Inspect() controller.Inspector
		Informers() []controller.Informer
	}
	aQueue interface {
		Stats() workqueue.Stats
		Totals() workqueue.Totals
		OldestReady() time.Duration
	}
	anInformer interface {
		Stats() informer.Stats
		HasSynced() bool
	}
	anElector interface {
		Stats() leaderelect.Stats
		Leader() (leaderelect.Leader, bool)
	}
	someSlots interface {
		Stats() shard.Stats
		Owned() []int
		Owners() []leaderelect.Leader
		Members() []leaderelect.Leader
	}
	aRecorder interface {
		Stats() events.Stats
		Events() []events.Event
	}
)

// isKnown reports whether the page can show p.
func isKnown(p any) bool {
	switch p.(type) {
	case aController, aQueue, anInformer, anElector, someSlots, aRecorder:
		return true
	}
	return false
}

// part is a part of the manager, an informer of a part, or a part that was added.
type part struct {
	name    string
	value   any
	managed *manager.PartStats // nil if the manager does not run it
}

// parts is a snapshot of all parts.
type parts struct {
	state string // of the manager
	all   []part // each once
}

// parts returns all parts.
func (h *Handler) parts() parts {
	var ps parts
	if h.manager != nil {
		stats := h.manager.Stats()
		ps.state = stats.State
		for _, p := range stats.Parts {
			ps.add(part{p.Name, p.Value, &p})
		}
	}
	h.mu.Lock()
	added := slices.Clone(h.added)
	h.mu.Unlock()
	for _, p := range added {
		ps.add(p)
	}
	return ps
}

// add adds p and its informers, unless they are already there.
func (ps *parts) add(p part) {
	if slices.ContainsFunc(ps.all, func(other part) bool { return same(other.value, p.value) }) {
		return
	}
	ps.all = append(ps.all, p)
	if needs, ok := p.value.(interface{ Informers() []controller.Informer }); ok {
		for _, s := range needs.Informers() {
			ps.add(part{name: s.Name(), value: s})
		}
	}
}

// each calls f for each part that is a P.
func each[P any](ps parts, f func(name string, p P)) {
	for _, p := range ps.all {
		if v, ok := p.value.(P); ok {
			f(p.name, v)
		}
	}
}

// find returns the part with the given name that is a P.
func find[P any](ps parts, name string) (found P, ok bool) {
	each(ps, func(n string, p P) {
		if n == name && !ok {
			found, ok = p, true
		}
	})
	return found, ok
}

// same reports whether a and b are the same part.
func same(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
