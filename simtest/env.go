package simtest

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Env is the environment of one process of a system.
type Env struct {
	p   *process
	all stores
}

func (e *Env) stores() *stores { return &e.all }

// Backend returns the database of the process, for systems that open their stores themselves. [Open] is the shorter way.
func (e *Env) Backend() backend.Backend { return e.all.backend }

// Effect performs an effect outside the stores, such as a call of a cloud API, by calling fn. The kit can end the process before or after
// it, lose the request or the reply, make it slow, or deliver it after another process has taken over. The name identifies the effect in
// plans and timelines: "create vpc". The context of fn has the leadership of a [System] with a Lease. If the receiver can refuse calls of
// former leaders, send its term along (leaderelect.FromContext). A call that arrives late is made in another goroutine.
func (e *Env) Effect(ctx context.Context, name string, fn func(context.Context) error) error {
	return e.p.effect(ctx, name, fn)
}

// Part is a part of a system that the kit drives: see [Loop], [Cache], and [Background].
type Part interface{ join(processDriver) error }

// Loop is a controller, with the informers that it watches.
func Loop[K comparable](c *controller.Controller[K]) Part { return loopPart{controllerLoop[K]{c}} }

// Cache is an informer that no controller of the process watches.
func Cache[K comparable, T any](in *informer.Informer[K, T]) Part { return cachePart{in} }

// Background is a part with a Run that makes calls by itself, such as an *events.Recorder. Each of its calls waits until no reconcile is in
// flight. Stages are those of the manager ([manager.At]): only a part of stage Leading has the leadership of a System with a Lease.
func Background(p manager.Part) Part { return background{p} }

type (
	loopPart   struct{ loop }
	cachePart  struct{ controller.Informer }
	background struct{ manager.Part }
)

func (l loopPart) join(d processDriver) error   { return d.joinLoop(l.loop) }
func (c cachePart) join(d processDriver) error  { return d.joinCache(c.Informer) }
func (b background) join(d processDriver) error { return d.joinBackground(b.Part) }
