package dbtest

import (
	"context"

	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// Reported is the context of a reconcile that records the writes that are reported to it. It is not safe for concurrent use.
type Reported struct {
	context.Context
	Writes []reconcile.Write
}

// Value returns the listener of writes, or a value of the parent.
func (r *Reported) Value(key any) any {
	if key == (reconcile.WritesKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// Begin implements [reconcile.WriteListener].
func (r *Reported) Begin(reconcile.Clock) {}

// End implements [reconcile.WriteListener].
func (r *Reported) End(_ reconcile.Clock, w reconcile.Write) { r.Writes = append(r.Writes, w) }
