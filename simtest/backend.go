package simtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"runtime"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// effect calls fn, which acts outside the stores. Faults hit it.
func (p *process) effect(ctx context.Context, name string, fn func(context.Context) error) error {
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f := p.run.at(p, position{op: "effect", object: name, write: true})
	if f != nil && (f.Do == faultLate || f.Do == faultRegain) {
		return p.delay(ctx, f, name, func() error { return fn(context.WithoutCancel(ctx)) })
	}
	if err := p.before(ctx, f); err != nil {
		return err
	}
	err := fn(ctx)
	p.note("%s%s", name, errText(err))
	p.run.checkAlways(Change{By: p.name, Op: name})
	return p.after(f, err)
}

// before applies a fault before a call.
func (p *process) before(ctx context.Context, f *Fault) error {
	if f == nil {
		return nil
	}
	switch f.Do {
	case faultCrashBefore:
		p.die("CRASH")
		runtime.Goexit()
	case faultLoseRequest:
		p.note("FAULT the request is lost")
		return ErrLost
	case faultSlow, faultPause, faultZombie, faultLoseLease, faultMove, faultEarly:
		p.hold(ctx, f, nil)
		p.enter()
	}
	return nil
}

// after applies a fault after a call, and returns the error of the call.
func (p *process) after(f *Fault, err error) error {
	if f == nil {
		return err
	}
	switch f.Do {
	case faultCrashAfter, faultDown, faultTravel, faultCold:
		p.die("CRASH")
		runtime.Goexit()
	case faultLoseReply:
		p.note("FAULT the reply is lost")
		return ErrLost
	}
	return err
}

// errRead is the error of a read that a fault hits.
var errRead = errors.New("simtest: the read failed")

// read applies a fault before a read.
func (p *process) read(ctx context.Context, op, object string) error {
	f := p.run.at(p, position{op: op, object: object})
	if f == nil {
		return nil
	}
	if f.Do == faultReadFails {
		p.note("FAULT %s %s fails", op, object)
		return errRead
	}
	return p.before(ctx, f)
}

// processBackend is the database as seen by a process. Faults hit its calls.
type processBackend struct{ p *process }

// Get implements [backend.Backend].
func (b processBackend) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	p := b.p
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	if err := p.read(ctx, "get", objectName(kind, key)); err != nil {
		return backend.Record{}, err
	}
	p.reads.note(objectName(kind, key))
	return p.run.db.get(kind, key), nil
}

// List implements [backend.Backend].
func (b processBackend) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		p := b.p
		in := inputFrom(ctx)
		if in == nil {
			p.await(ctx)
		}
		p.enter()
		if err := context.Cause(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		if in != nil {
			yield(p.run.db.list(in.beginList(kind), kind, q), nil)
			return
		}
		if err := p.read(ctx, "list", kind); err != nil {
			yield(backend.Page{}, err)
			return
		}
		p.reads.note(kind)
		yield(p.run.db.list(p.run.db.version(), kind, q), nil)
	}
}

// Version implements [backend.Versioner]. Only a takeover asks for it, and an informer that holds no slot, in place of a list. No fault hits
// it.
func (b processBackend) Version(ctx context.Context) (informer.Version, error) {
	if b.p.dead.Load() {
		return 0, errEnded
	}
	if in := inputFrom(ctx); in != nil {
		return in.beginList(in.sourceKind()), context.Cause(ctx)
	}
	return b.p.run.db.version(), context.Cause(ctx)
}

// Watch implements [backend.Backend]. The kit reads only when there is something new.
func (b processBackend) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		p := b.p
		in := inputFrom(ctx)
		if in == nil {
			yield(backend.Change{}, fmt.Errorf("simtest: watch %s: only an informer that the kit drives can watch", kind))
			return
		}
		for at := after; ; {
			limit, err := in.nextLimit(ctx, at)
			if err != nil {
				yield(backend.Change{}, err)
				return
			}
			reported, idle := at, at >= limit
			for _, c := range p.run.db.after(at, limit) {
				at = c.record.Version
				if c.kind == kind && q.Concern(&c.record) {
					if reported = at; !yield(backend.Change{Record: c.record, Version: at}, nil) {
						return
					}
					break // limit may have changed
				}
			}
			if (reported != at || idle) && !yield(backend.Change{Version: at}, nil) {
				return
			}
		}
	}
}

// Transact implements [backend.Backend].
func (b processBackend) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	p := b.p
	p.await(ctx)
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	have, next, err := b.look(kind, key, fences, decide)
	if err != nil || next == nil {
		return have, err
	}
	op := opOf(have, *next)
	f := p.run.at(p, position{op: op, object: objectName(kind, key), write: true})
	if f != nil {
		if f.Do == faultRegain {
			return backend.Record{}, p.delay(ctx, f, op+" "+objectName(kind, key), func() error {
				_, next, err := b.look(kind, key, fences, decide)
				if err != nil || next == nil {
					return err
				}
				b.commit(kind, key, fences, *next)
				return nil
			})
		}
		if err := p.before(ctx, f); err != nil {
			return backend.Record{}, err
		}
		if f.Do == faultConflict {
			p.run.commit("other", kind, key, have) // as it was: only the version differs
		}
		if have, next, err = b.look(kind, key, fences, decide); err != nil || next == nil {
			return have, err
		}
	}
	p.checkWrite(kind, key, have, *next, decide)
	written := b.commit(kind, key, fences, *next)
	if err := p.after(f, nil); err != nil {
		return backend.Record{}, err
	}
	return written, nil
}

func (b processBackend) commit(kind, key string, fences []backend.Fence, next backend.Record) (written backend.Record) {
	b.p.run.db.acceptFences(fences)
	return b.p.run.commit(b.p.name, kind, key, next)
}

// look returns the current record, and the record that a write would store. If next is nil, there is no write.
func (b processBackend) look(
	kind, key string, fences []backend.Fence, decide backend.Decide,
) (have backend.Record, next *backend.Record, err error) {
	db := b.p.run.db
	if err = db.checkFences(fences); err == nil {
		have = db.get(kind, key)
		next, err = decide(have)
	}
	if err != nil {
		b.p.note("refused: %s %v", objectName(kind, key), err)
		return backend.Record{}, nil, err
	}
	if next == nil {
		db.acceptFences(fences)
	}
	return have, next, nil
}

// Capabilities implements [backend.Backend].
func (b processBackend) Capabilities() backend.Capabilities { return b.p.run.db.Capabilities() }

// Claim implements [backend.Backend].
func (b processBackend) Claim(kind string, of reflect.Type) error { return b.p.run.db.Claim(kind, of) }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
