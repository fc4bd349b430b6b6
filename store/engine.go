package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/store/backend"
)

// engine implements [Store] on any backend.
type engine[T any] struct {
	kind   string
	db     backend.Backend
	cfg    Config[T]
	codec  codec[T]
	life   lifecycle[T]
	limit  int           // bytes of a record; zero means no limit
	fenced atomic.Uint64 // writes that were rejected
}

func (s *engine[T]) Kind() string { return s.kind }

// Clock identifies the sequence of versions of s, for a controller that waits until its caches show its own writes.
func (s *engine[T]) Clock() reconcile.Clock { return reconcile.Clock{Kind: s.kind, DB: s.db} }

func (s *engine[T]) Equal(a, b Object[T]) bool { return a.UID == b.UID && a.Version == b.Version }

func (s *engine[T]) BookmarkPeriod() time.Duration { return backend.BookmarkInterval }

func (s *engine[T]) Get(ctx context.Context, key string) (Object[T], error) {
	if err := checkName("key", key, backend.MaxKey); err != nil {
		return Object[T]{}, s.invalid(opGet, key, err)
	}
	r, err := s.db.Get(ctx, s.kind, key)
	if err == nil && (r.Version == 0 || r.Deleted) {
		err = ErrNotFound
	}
	if err != nil {
		return Object[T]{}, s.fail(ctx, opGet, key, err)
	}
	r.Key = key
	st, err := s.codec.state(&r)
	if err != nil {
		return Object[T]{}, s.fail(ctx, opGet, key, err)
	}
	return st.Object, nil
}

func (s *engine[T]) List(ctx context.Context) (informer.List[Object[T]], error) {
	return s.Select(ctx, Selector{})
}

func (s *engine[T]) Select(ctx context.Context, sel Selector) (informer.List[Object[T]], error) {
	l, err := informer.Collect(s.selectPages(ctx, sel))
	if err != nil {
		return informer.List[Object[T]]{}, s.fail(ctx, opList, "", err)
	}
	return l, nil
}

func (s *engine[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[Object[T]], error] {
	return s.selectPages(ctx, Selector{})
}

func (s *engine[T]) selectPages(ctx context.Context, sel Selector) iter.Seq2[informer.List[Object[T]], error] {
	return func(yield func(informer.List[Object[T]], error) bool) {
		if err := checkSelector(&sel); err != nil {
			yield(informer.List[Object[T]]{}, s.invalid(opList, "", err))
			return
		}
		var st state[T] // reused, to allocate one
		for page, err := range s.db.List(ctx, s.kind, sel) {
			if err != nil {
				yield(informer.List[Object[T]]{}, s.fail(ctx, opList, "", err))
				return
			}
			l := informer.List[Object[T]]{Items: make([]Object[T], 0, len(page.Records)), Version: page.Version}
			for i := range page.Records {
				r := &page.Records[i]
				if r.Deleted || !sel.Matches(r.Key, r.Labels) {
					continue
				}
				st = state[T]{}
				if err := s.codec.read(&st, r); err != nil {
					object := Object[T]{Kind: s.kind, Key: r.Key, Version: r.Version}
					l.Unread = append(l.Unread, informer.Unread[Object[T]]{Object: object, Err: s.undecodable(opList, r, err)})
					continue
				}
				l.Items = append(l.Items, st.Object)
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

// nothing is a prefix that no usual key has.
const nothing = "\U0010FFFF\U0010FFFF\U0010FFFF\U0010FFFF"

func (s *engine[T]) LatestVersion(ctx context.Context) (informer.Version, error) {
	if b, ok := s.db.(backend.Versioner); ok {
		v, err := b.Version(ctx)
		if err != nil {
			return 0, s.fail(ctx, opVersion, "", err)
		}
		return v, nil
	}
	err := errors.New("the backend yields no page")
	for page, failed := range s.db.List(ctx, s.kind, backend.Query{Prefix: nothing}) {
		if err = failed; err == nil {
			return page.Version, nil
		}
		break
	}
	return 0, s.fail(ctx, opVersion, "", err)
}

func (s *engine[T]) RaiseFence(ctx context.Context) error {
	fences, err := fencesOf(ctx, nil)
	if err == nil && len(fences) > 0 {
		_, err = s.db.Transact(ctx, s.kind, nothing, fences, func(backend.Record) (*backend.Record, error) { return nil, nil })
	}
	if err == nil {
		return nil
	}
	if err = s.fail(ctx, opRaiseFence, "", err); errors.Is(err, ErrFenced) {
		s.fenced.Add(1)
	}
	return err
}

func (s *engine[T]) Watch(
	ctx context.Context, after informer.Version,
) iter.Seq2[informer.Event[Object[T]], error] {
	return s.WatchSelected(ctx, Selector{}, after)
}

func (s *engine[T]) WatchSelected(
	ctx context.Context, sel Selector, after informer.Version,
) iter.Seq2[informer.Event[Object[T]], error] {
	return func(yield func(informer.Event[Object[T]], error) bool) {
		if err := checkSelector(&sel); err != nil {
			yield(informer.Event[Object[T]]{}, s.invalid(opWatch, "", err))
			return
		}
		var st state[T] // reused, to allocate one
		reached := after
		for c, err := range s.db.Watch(ctx, s.kind, sel, after) {
			if err != nil {
				yield(informer.Event[Object[T]]{}, s.ended(ctx, reached, err))
				return
			}
			reached = c.Version
			st = state[T]{}
			if !yield(s.event(&c, &st, &sel), nil) {
				return
			}
		}
	}
}

// ended returns the error of a watch that has ended with err, after it has reached a version.
func (s *engine[T]) ended(ctx context.Context, reached informer.Version, err error) error {
	var expired *expiredError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &expired):
		return &Error{Op: opWatch, Kind: s.kind, Have: expired.first, Want: reached, Err: err}
	case errors.Is(err, backend.ErrExpired):
		return &Error{Op: opWatch, Kind: s.kind, Want: reached, Err: err}
	default:
		return s.fail(ctx, opWatch, "", err)
	}
}

// event returns c as an event of a watch of sel. It decodes the record into st, which is zero.
func (s *engine[T]) event(c *backend.Change, st *state[T], sel *Selector) informer.Event[Object[T]] {
	r := &c.Record
	bookmark := informer.Event[Object[T]]{Type: informer.Bookmark, Version: c.Version}
	if r.Key == "" {
		return bookmark
	}
	err := s.codec.read(st, r)
	in := sel.Matches(r.Key, st.Labels)
	was := in
	if st.before != nil {
		was = sel.Matches(r.Key, st.before)
	}
	e := informer.Event[Object[T]]{Object: st.Object, Version: c.Version}
	switch {
	case err != nil && !st.deleted && in:
		e.Type, e.Object, e.Err = informer.Unreadable, Object[T]{Kind: s.kind, Key: r.Key, Version: r.Version}, s.undecodable(opWatch, r, err)
	case st.deleted && !in && !was:
		return bookmark
	case st.deleted:
		e.Type = informer.Deleted
	case in && (st.created || !was):
		e.Type = informer.Added
	case in:
		e.Type = informer.Modified
	case was && !st.created:
		e.Type = informer.Deleted
	default:
		return bookmark
	}
	return e
}

func (s *engine[T]) Create(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if err := s.check(opCreate, &obj); err != nil {
		return Object[T]{}, err
	}
	return s.write(ctx, write[T]{op: opCreate, kind: s.kind, key: obj.Key, pre: pre, uid: s.cfg.NewUID()}, &obj)
}

func (s *engine[T]) Update(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if err := s.check(opUpdate, &obj); err != nil {
		return Object[T]{}, err
	}
	return s.write(ctx, write[T]{op: opUpdate, kind: s.kind, key: obj.Key, pre: pre}, &obj)
}

func (s *engine[T]) UpdateStatus(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if s.life.status == nil {
		return Object[T]{}, s.invalid(opUpdateStatus, obj.Key, errors.New("the type has no status"))
	}
	if err := checkName("key", obj.Key, backend.MaxKey); err != nil {
		return Object[T]{}, s.invalid(opUpdateStatus, obj.Key, err)
	}
	return s.write(ctx, write[T]{op: opUpdateStatus, kind: s.kind, key: obj.Key, pre: pre}, &obj)
}

func (s *engine[T]) Delete(ctx context.Context, key string, pre ...Precondition) (Object[T], error) {
	if err := checkName("key", key, backend.MaxKey); err != nil {
		return Object[T]{}, s.invalid(opDelete, key, err)
	}
	return s.write(ctx, write[T]{op: opDelete, kind: s.kind, key: key, pre: pre}, nil)
}

// write makes a write, and reports it to the listener of ctx.
func (s *engine[T]) write(ctx context.Context, w write[T], obj *Object[T]) (o Object[T], err error) {
	listener := reconcile.BeginWrite(ctx, s.Clock())
	if listener == nil {
		return s.apply(ctx, &w, obj)
	}
	var done reconcile.Write
	defer func() { listener.End(s.Clock(), done) }() // even after a panic of the backend
	o, err = s.apply(ctx, &w, obj)
	if err == nil {
		done = reconcile.Write{Clock: s.Clock(), Object: w.key, Before: uint64(w.before), Version: uint64(o.Version)}
	}
	return o, err
}

// apply makes a write, and sets w.before: the version that it has replaced, or reconcile.Unknown.
func (s *engine[T]) apply(ctx context.Context, w *write[T], obj *Object[T]) (o Object[T], err error) {
	w.before = reconcile.Unknown // until admit has seen the object
	if s.cfg.Trace != nil {
		w.trace = cleanTrace(s.cfg.Trace(ctx))
	}
	fences, err := fencesOf(ctx, w.pre)
	if err == nil {
		o, err = s.transact(ctx, w, obj, fences)
	}
	if err != nil {
		err = s.fail(ctx, w.op, w.key, err)
		if errors.Is(err, ErrFenced) {
			s.fenced.Add(1)
		}
		return Object[T]{}, err
	}
	return o, nil
}

// transact makes a write in a transaction of the backend, which decides on the record that the transaction has read.
func (s *engine[T]) transact(ctx context.Context, w *write[T], obj *Object[T], fences []Fence) (Object[T], error) {
	var result *state[T]
	r, err := s.db.Transact(ctx, s.kind, w.key, fences, func(have backend.Record) (*backend.Record, error) {
		have.Key = w.key
		old, err := s.codec.state(&have)
		if err = w.readable(old, err); err != nil {
			return nil, err
		}
		next, err := s.life.decide(w, obj, old, &s.codec)
		if err != nil {
			return nil, err
		}
		if next == nil {
			result = old
			return nil, nil
		}
		record, err := s.codec.record(next)
		if err != nil {
			return nil, err
		}
		if size := sizeOf(&record); s.limit > 0 && size > s.limit {
			return nil, fmt.Errorf("%w: it has %d bytes, %d are allowed", backend.ErrTooLarge, size, s.limit)
		}
		result = next
		return &record, nil
	})
	if err != nil {
		return Object[T]{}, err
	}
	result.Version = r.Version
	return result.Object, nil
}

// check returns an error unless every backend can store the key and the envelope of o.
func (s *engine[T]) check(op string, o *Object[T]) error {
	if err := checkName("key", o.Key, backend.MaxKey); err != nil {
		return s.invalid(op, o.Key, err)
	}
	if err := checkEnvelope(o); err != nil {
		return s.invalid(op, o.Key, err)
	}
	return nil
}

func (s *engine[T]) invalid(op, key string, err error) error {
	return failed(op, s.kind, key, fmt.Errorf("%w: %w", ErrInvalid, err))
}

// fail returns the error of a call with ctx.
func (s *engine[T]) fail(ctx context.Context, op, key string, err error) error {
	return failed(op, s.kind, key, ended.Err(ctx, err, answers))
}
