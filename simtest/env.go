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
	"github.com/setpoint-go/setpoint/store/backend"
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
	p.enter()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := p.run.at(p, position{op: "effect", object: name, write: true})
	if f != nil && f.Do == Late {
		p.run.delay(p, name, f.N, func() error { return fn(context.WithoutCancel(ctx)) })
	}
	if err := p.before(f); err != nil {
		return err
	}
	err := fn(ctx)
	p.run.note(p.name, "%s%s", name, errText(err))
	return p.after(f, err)
}

// Part is a part of a system, that the kit drives: see [Loop] and [Cache].
type Part interface {
	join(p *process) error
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

type mirror struct{ in any }

func (m mirror) join(p *process) error { return p.watch(m.in) }

// park is a call that waits until resume is closed.
type park struct {
	fault  Fault
	resume chan struct{}
}

// view is an informer of a process, and what it may hear.
type view struct {
	p       *process
	in      any    // the informer
	kind    string // empty until it has listed
	steps   informer.Steps
	version func() informer.Version
	listed  bool
	frozen  bool
	at      informer.Version // of a view that is frozen
	gap     bool             // of a view that is frozen: its watch breaks when it thaws
	since   time.Time        // of a view that is frozen
	// sinceSteps is run.steps when the view froze.
	sinceSteps int
	expire     bool // the watch has to break
}

// limit is the version up to which the view may hear.
func (v *view) limit() informer.Version {
	if v.frozen {
		return v.at
	}
	return v.p.run.db.version()
}

// behind reports whether there is something to read.
func (v *view) behind() bool { return !v.listed || v.expire || v.version() < v.limit() }

// watch drives an informer, once.
func (p *process) watch(src any) error {
	in, ok := src.(interface {
		Steps(ctx context.Context) (informer.Steps, error)
		Version() informer.Version
	})
	if !ok {
		return fmt.Errorf("simtest: %T is no informer, and cannot be driven", src)
	}
	if slices.ContainsFunc(p.views, func(v *view) bool { return v.in == src }) {
		return nil
	}
	steps, err := in.Steps(p.ctx)
	if err != nil {
		return err
	}
	p.views = append(p.views, &view{p: p, in: src, steps: steps, version: in.Version})
	p.ends = append(p.ends, steps.Stop)
	return nil
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
func (p *process) before(f *Fault) error {
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
	case Slow, Zombie, LoseLease:
		if p.inFlight.Load() {
			waits := &park{*f, make(chan struct{})}
			p.parked <- waits
			<-waits.resume
		}
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

// gate is the database of a process.
type gate process

// Get implements [backend.Backend].
func (g *gate) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	p := (*process)(g)
	p.enter()
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	if f := p.run.at(p, position{op: "get", object: nameOf(kind, key)}); f != nil {
		p.run.note(p.name, "FAULT get %s fails", nameOf(kind, key))
		return backend.Record{}, errRead
	}
	p.reading.sees(nameOf(kind, key))
	return p.run.db.get(kind, key), nil
}

// List implements [backend.Backend].
func (g *gate) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		p := (*process)(g)
		p.enter()
		if err := context.Cause(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		if v := p.viewing; v != nil {
			v.kind, v.listed, v.expire = kind, true, false
			yield(p.run.db.list(v.limit(), kind, q), nil)
			return
		}
		if f := p.run.at(p, position{op: "list", object: kind}); f != nil {
			p.run.note(p.name, "FAULT list %s fails", kind)
			yield(backend.Page{}, errRead)
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
		v := p.viewing
		if v == nil {
			yield(backend.Change{}, fmt.Errorf("simtest: watch %s: only an informer that the kit drives can watch", kind))
			return
		}
		for at := after; ; {
			switch limit := v.limit(); {
			case ctx.Err() != nil:
				yield(backend.Change{}, context.Cause(ctx))
				return
			case v.expire:
				v.expire = false
				yield(backend.Change{}, fmt.Errorf("%w: a fault has broken the watch", backend.ErrExpired))
				return
			case at > p.run.db.version():
				yield(backend.Change{}, fmt.Errorf("%w: version %d is in the future", backend.ErrExpired, at))
				return
			case at >= limit:
				yield(backend.Change{}, fmt.Errorf("simtest: watch %s: there is nothing to hear", kind))
				return
			default:
				told := at
				for _, c := range p.run.db.after(at, limit) {
					at = c.record.Version
					if c.kind == kind && q.Concern(&c.record) {
						if told = at; !yield(backend.Change{Record: c.record, Version: at}, nil) {
							return
						}
						break // limit may have changed
					}
				}
				if told != at && !yield(backend.Change{Version: at}, nil) {
					return
				}
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
	p.enter()
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
				if err := p.before(f); err != nil {
					return backend.Record{}, err
				}
				if f.Do == Conflict {
					p.run.commit("somebody", kind, key, have) // as it was: only the version differs
				}
				continue // decides again, on what is there now
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
