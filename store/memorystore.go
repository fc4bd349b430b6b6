package store

import (
	"context"
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
	if ctx.Err() != nil {
		return informer.List[Object[T]]{}, s.fail(OpList, "", context.Cause(ctx))
	}
	s.db.mu.RLock()
	stored := make([]*Object[T], 0, len(s.objects))
	for _, o := range s.objects {
		stored = append(stored, o)
	}
	version := s.db.version
	s.db.mu.RUnlock()

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
	obj = s.copyOf(obj)
	pre = append(slices.Clip(pre), IfVersion(obj.Version))
	if obj.UID != "" {
		pre = append(pre, IfUID(obj.UID))
	}
	return s.write(ctx, OpUpdate, &obj, pre, (*MemoryStore[T]).updateLocked)
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
		return apply(s, old, obj), nil
	}()
	if err != nil {
		return Object[T]{}, err
	}
	return s.copyOf(*stored), nil
}

func (s *MemoryStore[T]) createLocked(_, obj *Object[T]) *Object[T] {
	obj.Created, obj.Deleting = now(), time.Time{}
	return s.commitLocked(informer.Added, obj)
}

func (s *MemoryStore[T]) updateLocked(old, obj *Object[T]) *Object[T] {
	obj.UID, obj.Created, obj.Deleting = old.UID, old.Created, old.Deleting
	switch {
	case !obj.Deleting.IsZero() && len(obj.Finalizers) == 0:
		return s.commitLocked(informer.Deleted, obj)
	case sameLists(old, obj) && s.plain.equal(reflect.ValueOf(&old.Value).Elem(), reflect.ValueOf(&obj.Value).Elem()):
		return old
	default:
		return s.commitLocked(informer.Modified, obj)
	}
}

func (s *MemoryStore[T]) deleteLocked(old, _ *Object[T]) *Object[T] {
	next := *old // shares what the value points to, which never changes
	switch {
	case len(old.Finalizers) == 0:
		return s.commitLocked(informer.Deleted, &next)
	case old.Deleting.IsZero():
		next.Deleting = now()
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
	o.Owners, o.Finalizers = slices.Clone(o.Owners), slices.Clone(o.Finalizers)
	return o.withoutEmpty()
}

func (s *MemoryStore[T]) fail(op, key string, err error) error {
	return &Error{Op: op, Kind: s.kind, Key: key, Err: err}
}

// now is the time as a database gives it: in UTC, and without the reading of the monotonic clock.
func now() time.Time { return time.Now().UTC().Round(0) }
