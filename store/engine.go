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
	"github.com/setpoint-go/setpoint/internal/written"
	"github.com/setpoint-go/setpoint/store/backend"
)

// keeper keeps the states of one kind: encoded in any backend, or direct in a Memory.
type keeper[T any] interface {
	get(ctx context.Context, key string) (Object[T], error)
	pages(ctx context.Context, q *backend.Query) iter.Seq2[page[T], error]
	watch(ctx context.Context, q *backend.Query, after informer.Version) iter.Seq2[told[T], error]
	transact(ctx context.Context, w *write[T], obj *Object[T], fences []Fence) (Object[T], error)
}

// page is one page of a list.
type page[T any] struct {
	items   []Object[T]
	unread  []unread
	version informer.Version
}

// unread is a record that does not decode.
type unread struct {
	key     string
	version informer.Version
	err     error
}

// told is an event of a watch. Without a key, it is a bookmark.
type told[T any] struct {
	key     string
	object  Object[T]
	hidden  hidden
	err     error // the record does not decode
	version informer.Version
}

// engine implements [Store] on any keeper.
type engine[T any] struct {
	kind      string
	db        backend.Backend
	cfg       Config[T]
	keeper    keeper[T]
	direct    *direct[T] // the keeper, if it is one: a call without the interface allocates less
	hasStatus bool       // of T
	skips     bool       // watches may leave out writes
	bad       bad
	fenced    atomic.Uint64 // writes that were rejected
}

func (s *engine[T]) Kind() string { return s.kind }

// Clock identifies the sequence of versions of s, for a controller that waits until its caches show its own writes.
func (s *engine[T]) Clock() written.Clock { return written.Clock{Kind: s.kind, DB: s.db} }

func (s *engine[T]) Equal(a, b Object[T]) bool { return a.UID == b.UID && a.Version == b.Version }

func (s *engine[T]) BookmarkPeriod() time.Duration { return backend.BookmarkInterval }

func (s *engine[T]) Get(ctx context.Context, key string) (Object[T], error) {
	if err := checkName("key", key, backend.MaxKey); err != nil {
		return Object[T]{}, s.invalid(opGet, key, err)
	}
	o, err := s.keeper.get(ctx, key)
	if err != nil {
		return Object[T]{}, s.fail(ctx, opGet, key, err)
	}
	return o, nil
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
		all := sel.Prefix == "" && len(sel.Labels) == 0
		var version informer.Version
		var met map[string]bool // keys of records that did not decode
		for p, err := range s.keeper.pages(ctx, &sel) {
			if err != nil {
				yield(informer.List[Object[T]]{}, s.fail(ctx, opList, "", err))
				return
			}
			version = p.version
			l := informer.List[Object[T]]{Items: p.items, Version: version}
			for _, u := range p.unread {
				s.report(opList, u)
				l.Unread = append(l.Unread, Object[T]{Kind: s.kind, Key: u.key, Version: u.version})
				if met == nil {
					met = make(map[string]bool)
				}
				met[u.key] = true
			}
			if !yield(l, nil) {
				return
			}
		}
		if all {
			s.bad.keep(met, version)
		}
	}
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
		for t, err := range s.keeper.watch(ctx, &sel, after) {
			if err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				} else {
					err = s.fail(ctx, opWatch, "", err)
				}
				yield(informer.Event[Object[T]]{}, err)
				return
			}
			if !yield(s.event(&t, &sel), nil) {
				return
			}
		}
	}
}

// event returns t as an event of a watch of sel.
func (s *engine[T]) event(t *told[T], sel *Selector) informer.Event[Object[T]] {
	e := informer.Event[Object[T]]{Type: informer.Bookmark, Version: t.version}
	if t.key == "" {
		return e
	}
	bad := t.err != nil && !t.hidden.deleted
	if bad {
		s.report(opWatch, unread{t.key, t.object.Version, t.err})
	} else {
		s.bad.remove(t.key, t.object.Version)
	}
	in := sel.Matches(t.key, t.object.Labels)
	was := in
	if t.hidden.before != nil {
		was = sel.Matches(t.key, t.hidden.before)
	}
	if s.skips && len(sel.Labels) > 0 {
		was = true // the watch may have left out the previous state
	}
	switch {
	case bad && in, t.hidden.deleted && !in && !was:
		return e // a bookmark, so a cache keeps the previous state
	case t.hidden.deleted:
		e.Type = informer.Deleted
	case in && (t.hidden.created || !was):
		e.Type = informer.Added
	case in:
		e.Type = informer.Modified
	case was && !t.hidden.created:
		e.Type = informer.Deleted
	default:
		return e
	}
	e.Object = t.object
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
	if !s.hasStatus {
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

func (s *engine[T]) write(ctx context.Context, w write[T], obj *Object[T]) (o Object[T], err error) {
	var fences []Fence
	if id := requestOf(w.pre); id != "" {
		if err := checkName("request id", id, backend.MaxKey); err != nil {
			return o, s.invalid(w.op, w.key, err)
		}
	}
	if s.cfg.Trace != nil {
		w.trace = cleanTrace(s.cfg.Trace(ctx))
	}
	fences, err = fencesOf(ctx, w.pre)
	if requestOf(w.pre) != "" && errors.Is(err, ErrFenced) {
		w.over, err = err, nil
	}
	switch {
	case err != nil:
	case s.direct != nil:
		o, err = s.direct.transact(ctx, &w, obj, fences)
	default:
		there := w // escapes to the heap, so that w does not
		var given *Object[T]
		if obj != nil {
			given = new(Object[T])
			*given = *obj
		}
		o, err = s.keeper.transact(ctx, &there, given, fences)
	}
	if err != nil {
		err = s.fail(ctx, w.op, w.key, err)
		if errors.Is(err, ErrFenced) {
			s.fenced.Add(1)
		}
		return Object[T]{}, err
	}
	written.Tell(ctx, s.kind, s.db, uint64(o.Version))
	return o, nil
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
