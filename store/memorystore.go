package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// MemoryStore is the [Store] of one kind of objects in a [Memory]. Use [Open] to get one. Its methods may be called by
// several goroutines at once.
type MemoryStore[T any] struct {
	db    *Memory
	kind  string
	plain *plain // of T

	withStatus func(v, other T) T // nil when T has no status

	// db.mu guards the following.

	objects map[string]*Object[T] // by key; what they point to never changes
	history history[T]            // the last changes of this kind
	changed signal                // fires at each change of this kind
}

// Kind returns the kind that the store was opened with.
func (s *MemoryStore[T]) Kind() string { return s.kind }

// Get implements [Reader].
func (s *MemoryStore[T]) Get(ctx context.Context, key string) (Object[T], error) {
	if ctx.Err() != nil {
		return Object[T]{}, s.fail(OpGet, key, context.Cause(ctx))
	}
	s.db.mu.RLock()
	stored, ok := s.objects[key]
	s.db.mu.RUnlock()
	if !ok {
		return Object[T]{}, s.fail(OpGet, key, ErrNotFound)
	}
	return s.copyOf(*stored), nil
}

// List implements [Reader].
func (s *MemoryStore[T]) List(ctx context.Context) (informer.List[Object[T]], error) {
	return s.Select(ctx, Selector{})
}

// Select implements [Reader]. It looks at all objects of the kind, and copies those that it returns.
func (s *MemoryStore[T]) Select(ctx context.Context, sel Selector) (informer.List[Object[T]], error) {
	if ctx.Err() != nil {
		return informer.List[Object[T]]{}, s.fail(OpList, "", context.Cause(ctx))
	}
	s.db.mu.RLock()
	stored := slices.AppendSeq(make([]*Object[T], 0, len(s.objects)), maps.Values(s.objects))
	version := s.db.version
	s.db.mu.RUnlock()

	stored = slices.DeleteFunc(stored, func(o *Object[T]) bool { return !sel.Matches(o.Key, o.Labels) })
	slices.SortFunc(stored, func(a, b *Object[T]) int { return strings.Compare(a.Key, b.Key) })
	items := make([]Object[T], len(stored))
	for i, o := range stored {
		items[i] = s.copyOf(*o)
	}
	return informer.List[Object[T]]{Items: items, Version: version}, nil
}

// Create implements [Writer].
func (s *MemoryStore[T]) Create(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if obj.Key == "" {
		return Object[T]{}, s.fail(OpCreate, "", errNoKey)
	}
	obj = s.copyOf(obj)
	obj.UID = s.db.cfg.NewUID()
	return s.write(ctx, OpCreate, &obj, pre, (*MemoryStore[T]).createLocked)
}

// Update implements [Writer].
func (s *MemoryStore[T]) Update(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if read := s.statusBase(&obj); read != nil {
		obj.Value = s.withStatus(obj.Value, read.Value)
	}
	obj = s.copyOf(obj)
	return s.write(ctx, OpUpdate, &obj, compared(&obj, pre), (*MemoryStore[T]).updateLocked)
}

// UpdateStatus implements [Writer].
func (s *MemoryStore[T]) UpdateStatus(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if s.withStatus == nil {
		return Object[T]{}, s.fail(OpUpdateStatus, obj.Key, ErrNoStatus)
	}
	if read := s.statusBase(&obj); read != nil {
		obj.Value = s.withStatus(read.Value, obj.Value)
		obj.Labels, obj.Owners, obj.Finalizers = read.Labels, read.Owners, read.Finalizers
	}
	obj = s.copyOf(obj)
	return s.write(ctx, OpUpdateStatus, &obj, compared(&obj, pre), (*MemoryStore[T]).updateStatusLocked)
}

// statusBase returns a copy of the version that obj is to replace, for the part of it that obj is not to replace: a
// version never changes, so that it can be taken apart without the lock. It returns nil when T has no status or the write
// will be refused, since that version is not the stored one any more.
func (s *MemoryStore[T]) statusBase(obj *Object[T]) *Object[T] {
	if s.withStatus == nil {
		return nil
	}
	s.db.mu.RLock()
	stored := s.objects[obj.Key]
	s.db.mu.RUnlock()
	if stored == nil || stored.Version != obj.Version {
		return nil
	}
	read := s.copyOf(*stored)
	return &read
}

// compared returns pre and what an update of obj compares.
func compared[T any](obj *Object[T], pre []Precondition) []Precondition {
	pre = append(slices.Clip(pre), IfVersion(obj.Version))
	if obj.UID != "" {
		pre = append(pre, IfUID(obj.UID))
	}
	return pre
}

// Delete implements [Writer].
func (s *MemoryStore[T]) Delete(ctx context.Context, key string, pre ...Precondition) error {
	_, err := s.write(ctx, OpDelete, &Object[T]{Key: key}, pre, (*MemoryStore[T]).deleteLocked)
	return err
}

// write lets apply do the write if it is admitted. Apply gets the object that is stored, or nil, and the caller's, which
// nobody else holds, and returns the object to return.
func (s *MemoryStore[T]) write(
	ctx context.Context, op string, obj *Object[T], pre []Precondition,
	apply func(s *MemoryStore[T], old, obj *Object[T]) *Object[T],
) (Object[T], error) {
	if ctx.Err() != nil {
		return Object[T]{}, s.fail(op, obj.Key, context.Cause(ctx))
	}
	stored, err := func() (*Object[T], error) {
		s.db.mu.Lock()
		defer s.db.mu.Unlock()
		id := RequestOf(pre...)
		if id != "" {
			if was, ok := s.db.writes.find(id); ok {
				return s.repeated(was, op, obj.Key)
			}
		}
		old := s.objects[obj.Key]
		have := Current{Term: s.db.term}
		if old != nil {
			have.Version, have.UID = old.Version, old.UID
		}
		term, err := Admit(op, s.kind, obj.Key, have, pre...)
		if err != nil {
			return nil, err
		}
		s.db.term = term
		result := apply(s, old, obj)
		if id != "" {
			s.db.writes.add(request{id: id, op: op, kind: s.kind, key: obj.Key, result: result})
		}
		return result, nil
	}()
	if err != nil {
		return Object[T]{}, err
	}
	return s.copyOf(*stored), nil
}

// repeated returns what the request returned, if it is the one of this write.
func (s *MemoryStore[T]) repeated(was request, op, key string) (*Object[T], error) {
	if was.op != op || was.kind != s.kind || was.key != key {
		return nil, s.fail(op, key, fmt.Errorf("%w: %q was to %s %s %q", ErrRequest, was.id, was.op, was.kind, was.key))
	}
	return was.result.(*Object[T]), nil
}

func (s *MemoryStore[T]) createLocked(_, obj *Object[T]) *Object[T] {
	obj.Generation, obj.Created, obj.Deleting = 1, now(), time.Time{}
	return s.commitLocked(informer.Added, obj)
}

func (s *MemoryStore[T]) updateLocked(old, obj *Object[T]) *Object[T] {
	obj.Generation = old.Generation
	sameValue := s.sameValue(old, obj)
	if !sameValue { // the status is that of old: it is what was asked for that differs
		obj.Generation++
	}
	return s.replaceLocked(old, obj, sameValue)
}

func (s *MemoryStore[T]) updateStatusLocked(old, obj *Object[T]) *Object[T] {
	obj.Generation = old.Generation
	return s.replaceLocked(old, obj, s.sameValue(old, obj))
}

// replaceLocked puts obj in the place of old, if they differ.
func (s *MemoryStore[T]) replaceLocked(old, obj *Object[T], sameValue bool) *Object[T] {
	obj.UID, obj.Created, obj.Deleting = old.UID, old.Created, old.Deleting
	switch {
	case !obj.Deleting.IsZero() && len(obj.Finalizers) == 0:
		return s.commitLocked(informer.Deleted, obj)
	case sameValue && sameEnvelope(old, obj):
		return old
	default:
		return s.commitLocked(informer.Modified, obj)
	}
}

func (s *MemoryStore[T]) sameValue(a, b *Object[T]) bool {
	return s.plain.equal(reflect.ValueOf(&a.Value).Elem(), reflect.ValueOf(&b.Value).Elem())
}

func (s *MemoryStore[T]) deleteLocked(old, _ *Object[T]) *Object[T] {
	next := *old // shares what the value points to, which never changes
	switch {
	case len(old.Finalizers) == 0:
		return s.commitLocked(informer.Deleted, &next)
	case old.Deleting.IsZero():
		next.Deleting = now()
		next.Generation++
		return s.commitLocked(informer.Modified, &next)
	default:
		return old
	}
}

// commitLocked makes obj, which nobody changes from here on, the next change of the store.
func (s *MemoryStore[T]) commitLocked(t informer.EventType, obj *Object[T]) *Object[T] {
	obj.Version = s.db.nextVersionLocked()
	if t == informer.Deleted {
		delete(s.objects, obj.Key)
	} else {
		s.objects[obj.Key] = obj
	}
	s.history.add(change[T]{t, obj})
	s.changed.fireLocked()
	s.db.changed.fireLocked()
	return obj
}

// copyOf returns a deep copy of o.
func (s *MemoryStore[T]) copyOf(o Object[T]) Object[T] {
	if s.plain.deepen != nil {
		s.plain.deepen(reflect.ValueOf(&o.Value).Elem(), 0)
	}
	o.Labels, o.Owners, o.Finalizers = maps.Clone(o.Labels), slices.Clone(o.Owners), slices.Clone(o.Finalizers)
	return o.withoutEmpty()
}

func (s *MemoryStore[T]) fail(op, key string, err error) error {
	return &Error{Op: op, Kind: s.kind, Key: key, Err: err}
}

// now is the time as a database gives it: in UTC, and without the reading of the monotonic clock.
func now() time.Time { return time.Now().UTC().Round(0) }
