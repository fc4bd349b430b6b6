package simtest

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Env is the environment of one process of a system.
type Env struct{ p *process }

func (e *Env) stores() (backend.Backend, func() string) { return (*gate)(e.p), e.p.run.newUID }

// Backend returns the database of the process, for systems that open their stores themselves. [Open] is the shorter way.
func (e *Env) Backend() backend.Backend { return (*gate)(e.p) }

// Effect does something that is no write to a store, such as a call of a cloud: fn does it. The kit can end the process before
// or after it, lose the reply, have it take long, or have it arrive when another process has taken over. The name says in plans and
// timelines what it is: "create vpc". The context of fn has the leadership of a [System] with a Lease: send its term along
// (leaderelect.FromContext) if the receiver can refuse calls of leaders of the past. A call that arrives late is made in another
// goroutine.
func (e *Env) Effect(ctx context.Context, name string, fn func(context.Context) error) error {
	p := e.p
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := p.run.at(p, position{op: "effect", object: name, write: true})
	if f != nil && f.Do == Late {
		p.run.delay(p, name, f.N, func() error { return fn(context.WithoutCancel(ctx)) })
	}
	if err := p.before(ctx, f); err != nil {
		return err
	}
	err := fn(ctx)
	p.run.note(p.name, "%s%s", name, errText(err))
	return p.after(f, err)
}

// Part is a part of a system, that the kit drives: see [Loop], [Cache], and [Background].
type Part interface {
	join(p *process) error // of step mode
	live(p *process) error // of run mode
}

// Loop is a controller, with the informers that it watches.
func Loop[K comparable](c *controller.Controller[K]) Part { return &loop[K]{c} }

// Cache is an informer that no controller of the process watches.
func Cache[K comparable, T any](in *informer.Informer[K, T]) Part { return mirror{in} }

// looper is a controller without its type.
type looper interface {
	name() string
	ready() (keys []string)
	step(ctx context.Context, key string) string // returns what came of it
	next() time.Time                             // when a key becomes ready; zero if none does

	// Of run mode.
	pause()
	resume()
	waits() bool // a key is ready
	works() bool // a reconcile is in flight
	begun() int  // reconciles so far
}

type loop[K comparable] struct{ c *controller.Controller[K] }

func (l *loop[K]) name() string { return l.c.Name() }

func (l *loop[K]) join(p *process) error {
	for _, src := range l.c.Sources() {
		if err := p.watch(src); err != nil {
			return err
		}
	}
	disconnect, err := l.c.Connect(p.ctx)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, disconnect)
	p.loops = append(p.loops, l)
	return nil
}

func (l *loop[K]) ready() (keys []string) {
	for _, key := range l.c.Ready() {
		keys = append(keys, fmt.Sprint(key))
	}
	return keys
}

func (l *loop[K]) step(ctx context.Context, key string) string {
	for _, k := range l.c.Ready() {
		if fmt.Sprint(k) != key {
			continue
		}
		report, ok := l.c.Step(ctx, k)
		switch {
		case !ok:
			return ""
		case report.Err != nil:
			return fmt.Sprintf("%s: %v", report.Outcome, report.Err)
		default:
			return fmt.Sprint(report.Outcome)
		}
	}
	return ""
}

func (l *loop[K]) next() (next time.Time) {
	for _, k := range l.c.Snapshot() {
		for _, t := range []time.Time{k.Next, k.QuietUntil} {
			if !t.IsZero() && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

func (l *loop[K]) live(p *process) error {
	d := driven[K]{Controller: l.c}
	for _, src := range l.c.Sources() {
		s, err := p.sourceOf(src)
		if err != nil {
			return err
		}
		d.sources = append(d.sources, s)
	}
	l.c.Pause()
	p.loops = append(p.loops, l)
	return p.life.manager.Add(d)
}

func (l *loop[K]) pause()  { l.c.Pause() }
func (l *loop[K]) resume() { l.c.Resume() }

func (l *loop[K]) waits() bool { return l.has(workqueue.Ready) }
func (l *loop[K]) works() bool { return l.has(workqueue.InProcess) }

func (l *loop[K]) has(state workqueue.State) bool {
	return slices.ContainsFunc(l.c.Snapshot(), func(k workqueue.KeyInfo[K]) bool { return k.State == state })
}

func (l *loop[K]) begun() (n int) {
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

type mirror struct{ in any }

func (m mirror) join(p *process) error { return p.watch(m.in) }

func (m mirror) live(p *process) error {
	s, err := p.sourceOf(m.in)
	if err != nil {
		return err
	}
	return p.life.manager.Add(s)
}

// Background is a part with a Run that makes calls by itself, such as an *events.Recorder. Each of its calls waits until no
// reconcile is in flight. Stages are those of the manager ([manager.At]): only a part of stage Leading has the leadership of a
// System with a Lease.
func Background(part manager.Part) Part { return runner{part} }

type runner struct{ part manager.Part }

func (b runner) join(p *process) error {
	ctx := p.base
	if s, ok := b.part.(interface{ Stage() manager.Stage }); !ok || s.Stage() == manager.Leading {
		ctx = p.ctx
	}
	p.background++
	p.run.concurrent = true
	ended := make(chan struct{})
	// Ends with its context, or when it makes a call after the end of the process. The end of the process waits for it.
	go func() {
		defer close(ended)
		err := b.part.Run(context.WithValue(ctx, background{}, true))
		if !p.dead.Load() {
			p.run.fail(ruleStop, "%s: %s has ended by itself: %v", p.name, b.part.Name(), err)
		}
	}()
	p.ends = append(p.ends, func() { <-ended })
	return nil
}

func (b runner) live(p *process) error {
	p.background++
	return p.life.manager.Add(b.part)
}

// park is a call that waits until resume is closed.
type park struct {
	p      *process
	fault  Fault
	resume chan struct{}
}

// enter ends the goroutine of a process that is dead: nothing that it does after its end has an effect.
func (p *process) enter() {
	if p.dead.Load() {
		runtime.Goexit()
	}
}

// die ends the process at once. The goroutine ends at its next call of the environment.
func (p *process) die(why string) {
	if !p.dead.Swap(true) {
		p.run.note(p.name, "%s", why)
	}
}

// before does what a fault does before a call.
func (p *process) before(ctx context.Context, f *Fault) error {
	if f == nil {
		return nil
	}
	switch f.Do {
	case CrashBefore:
		p.die("CRASH")
		runtime.Goexit()
	case LoseRequest:
		p.run.note(p.name, "FAULT the request is lost")
		return ErrLost
	case Slow, Pause, Zombie, LoseLease:
		p.hold(ctx, f)
		p.enter()
	}
	return nil
}

// after does what a fault does after a call, and returns the error of the call.
func (p *process) after(f *Fault, err error) error {
	if f == nil {
		return err
	}
	switch f.Do {
	case CrashAfter, Down, Travel:
		p.die("CRASH")
		runtime.Goexit()
	case LoseReply:
		p.run.note(p.name, "FAULT the reply is lost")
		return ErrLost
	}
	return err
}

// read does what a fault does before a read.
func (p *process) read(ctx context.Context, op, object string) error {
	f := p.run.at(p, position{op: op, object: object})
	if f == nil {
		return nil
	}
	if f.Do == ReadFails {
		p.run.note(p.name, "FAULT %s %s fails", op, object)
		return errRead
	}
	return p.before(ctx, f)
}

// gate is the database of a process.
type gate process

// Get implements [backend.Backend].
func (g *gate) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	p := (*process)(g)
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	if err := p.read(ctx, "get", nameOf(kind, key)); err != nil {
		return backend.Record{}, err
	}
	p.reading.sees(nameOf(kind, key))
	return p.run.db.get(kind, key), nil
}

// List implements [backend.Backend].
func (g *gate) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		p := (*process)(g)
		v := viewOf(ctx)
		if v == nil {
			p.await(ctx)
		}
		p.enter()
		if err := context.Cause(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		if v != nil {
			yield(p.run.db.list(v.lists(kind), kind, q), nil)
			return
		}
		if err := p.read(ctx, "list", kind); err != nil {
			yield(backend.Page{}, err)
			return
		}
		p.reading.sees(kind)
		yield(p.run.db.list(p.run.db.version(), kind, q), nil)
	}
}

// Watch implements [backend.Backend]. The kit reads only when there is something to hear.
func (g *gate) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		p := (*process)(g)
		v := viewOf(ctx)
		if v == nil {
			yield(backend.Change{}, fmt.Errorf("simtest: watch %s: only an informer that the kit drives can watch", kind))
			return
		}
		for at := after; ; {
			limit, err := v.next(ctx, at)
			if err != nil {
				yield(backend.Change{}, err)
				return
			}
			told, idle := at, at >= limit
			for _, c := range p.run.db.after(at, limit) {
				at = c.record.Version
				if c.kind == kind && q.Concern(&c.record) {
					if told = at; !yield(backend.Change{Record: c.record, Version: at}, nil) {
						return
					}
					break // limit may have changed
				}
			}
			if (told != at || idle) && !yield(backend.Change{Version: at}, nil) {
				return
			}
		}
	}
}

// Transact implements [backend.Backend].
func (g *gate) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	p := (*process)(g)
	db := p.run.db
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	var f *Fault
	for asked := false; ; asked = true {
		if err := db.check(fences); err != nil {
			p.run.note(p.name, "refused: %s %v", nameOf(kind, key), err)
			return backend.Record{}, err
		}
		have := db.get(kind, key)
		next, err := decide(have)
		if err != nil {
			p.run.note(p.name, "refused: %s %v", nameOf(kind, key), err)
			return backend.Record{}, err
		}
		if next == nil {
			db.accept(fences)
			return have, nil
		}
		if !asked {
			f = p.run.at(p, position{op: opOf(have, *next), object: nameOf(kind, key), write: true})
			if f != nil {
				if err := p.before(ctx, f); err != nil {
					return backend.Record{}, err
				}
				if f.Do == Conflict {
					p.run.commit("somebody", kind, key, have) // as it was: only the version differs
				}
				continue // decides again, on the present record
			}
		}
		p.judgeWrite(kind, key, have, *next, decide)
		db.accept(fences)
		written := p.run.commit(p.name, kind, key, *next)
		if err := p.after(f, nil); err != nil {
			return backend.Record{}, err
		}
		return written, nil
	}
}

// Capabilities implements [backend.Backend].
func (g *gate) Capabilities() backend.Capabilities { return g.run.db.Capabilities() }

// Claim implements [backend.Backend].
func (g *gate) Claim(kind string, of reflect.Type) error { return g.run.db.Claim(kind, of) }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
