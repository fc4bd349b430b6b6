package sim

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"runtime"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Effect calls fn, which acts outside the stores. Faults hit it.
func (p *Process) Effect(ctx context.Context, name string, fn func(context.Context) error) error {
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := p.Run.at(p, Position{Op: "effect", Object: name, Write: true})
	if f != nil && (f.Do == fault.Late || f.Do == fault.Regain) {
		return p.delay(ctx, f, name, func() error { return fn(context.WithoutCancel(ctx)) })
	}
	if err := p.before(ctx, f); err != nil {
		return err
	}
	err := fn(ctx)
	p.Note("%s%s", name, errText(err))
	return p.after(f, err)
}

// before applies a fault before a call.
func (p *Process) before(ctx context.Context, f *fault.Fault) error {
	if f == nil {
		return nil
	}
	switch f.Do {
	case fault.CrashBefore:
		p.Die("CRASH")
		runtime.Goexit()
	case fault.LoseRequest:
		p.Note("FAULT the request is lost")
		return ErrLost
	case fault.Slow, fault.Pause, fault.Zombie, fault.LoseLease:
		p.hold(ctx, f, nil)
		p.enter()
	}
	return nil
}

// after applies a fault after a call, and returns the error of the call.
func (p *Process) after(f *fault.Fault, err error) error {
	if f == nil {
		return err
	}
	switch f.Do {
	case fault.CrashAfter, fault.Down, fault.Travel, fault.Cold:
		p.Die("CRASH")
		runtime.Goexit()
	case fault.LoseReply:
		p.Note("FAULT the reply is lost")
		return ErrLost
	}
	return err
}

// read applies a fault before a read.
func (p *Process) read(ctx context.Context, op, object string) error {
	f := p.Run.at(p, Position{Op: op, Object: object})
	if f == nil {
		return nil
	}
	if f.Do == fault.ReadFails {
		p.Note("FAULT %s %s fails", op, object)
		return errRead
	}
	return p.before(ctx, f)
}

// gate is the database as seen by a process.
type gate Process

// Backend returns the database as seen by the process: faults hit its calls.
func (p *Process) Backend() backend.Backend { return (*gate)(p) }

// Get implements [backend.Backend].
func (g *gate) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	p := (*Process)(g)
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	if err := p.read(ctx, "get", database.Name(kind, key)); err != nil {
		return backend.Record{}, err
	}
	p.reading.sees(database.Name(kind, key))
	return p.Run.DB.Get(kind, key), nil
}

// List implements [backend.Backend].
func (g *gate) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		p := (*Process)(g)
		v := view.From(ctx)
		if v == nil {
			p.await(ctx)
		}
		p.enter()
		if err := context.Cause(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		if v != nil {
			yield(p.Run.DB.List(v.Lists(kind), kind, q), nil)
			return
		}
		if err := p.read(ctx, "list", kind); err != nil {
			yield(backend.Page{}, err)
			return
		}
		p.reading.sees(kind)
		yield(p.Run.DB.List(p.Run.DB.Version(), kind, q), nil)
	}
}

// Watch implements [backend.Backend]. The kit reads only when there is something new.
func (g *gate) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		p := (*Process)(g)
		v := view.From(ctx)
		if v == nil {
			yield(backend.Change{}, fmt.Errorf("simtest: watch %s: only an informer that the kit drives can watch", kind))
			return
		}
		for at := after; ; {
			limit, err := v.Next(ctx, at)
			if err != nil {
				yield(backend.Change{}, err)
				return
			}
			told, idle := at, at >= limit
			for _, c := range p.Run.DB.After(at, limit) {
				at = c.Record.Version
				if c.Kind == kind && q.Concern(&c.Record) {
					if told = at; !yield(backend.Change{Record: c.Record, Version: at}, nil) {
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
	p := (*Process)(g)
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	have, next, err := g.look(kind, key, fences, decide)
	if err != nil || next == nil {
		return have, err
	}
	op := database.OpOf(have, *next)
	f := p.Run.at(p, Position{Op: op, Object: database.Name(kind, key), Write: true})
	if f != nil {
		if f.Do == fault.Regain {
			return backend.Record{}, p.delay(ctx, f, op+" "+database.Name(kind, key), func() error {
				_, next, err := g.look(kind, key, fences, decide)
				if err != nil || next == nil {
					return err
				}
				p.Run.DB.Accept(fences)
				p.Run.commit(p.Name, kind, key, *next)
				return nil
			})
		}
		if err := p.before(ctx, f); err != nil {
			return backend.Record{}, err
		}
		if f.Do == fault.Conflict {
			p.Run.commit("other", kind, key, have) // as it was: only the version differs
		}
		if have, next, err = g.look(kind, key, fences, decide); err != nil || next == nil {
			return have, err
		}
	}
	p.judgeWrite(kind, key, have, *next, decide)
	p.Run.DB.Accept(fences)
	written := p.Run.commit(p.Name, kind, key, *next)
	if err := p.after(f, nil); err != nil {
		return backend.Record{}, err
	}
	return written, nil
}

// look returns the current record, and the record that a write would store. If next is nil, there is no write.
func (g *gate) look(
	kind, key string, fences []backend.Fence, decide backend.Decide,
) (have backend.Record, next *backend.Record, err error) {
	db := g.Run.DB
	if err = db.Check(fences); err == nil {
		have = db.Get(kind, key)
		next, err = decide(have)
	}
	if err != nil {
		(*Process)(g).Note("refused: %s %v", database.Name(kind, key), err)
		return backend.Record{}, nil, err
	}
	if next == nil {
		db.Accept(fences)
	}
	return have, next, nil
}

// Capabilities implements [backend.Backend].
func (g *gate) Capabilities() backend.Capabilities { return g.Run.DB.Capabilities() }

// Claim implements [backend.Backend].
func (g *gate) Claim(kind string, of reflect.Type) error { return g.Run.DB.Claim(kind, of) }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
