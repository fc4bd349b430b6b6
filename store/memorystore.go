package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// MemoryStore is the [Store] of one kind of objects in a [Memory]. Use [Open] to get one. Its methods may be called by
// several goroutines at once.
type MemoryStore[T any] struct {
	db     *Memory
	kind   string
	values values[T]

	withStatus func(v, other T) T // nil when T has no status

	// db.mu guards the following.

	objects map[string]*Object[T] // by key; what they point to never changes
	history history[T]            // the last changes of this kind
	changed signal                // fires at each change of this kind
}

// Kind returns the kind that the store was opened with.
func (s *MemoryStore[T]) Kind() string { return s.kind }

// Equal reports whether a and b are the same version of the same object: it makes the store an [informer.Equaler], whose
// informers tell nothing about what a new list brings unchanged.
func (s *MemoryStore[T]) Equal(a, b Object[T]) bool { return a.UID == b.UID && a.Version == b.Version }

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
	return s.copyOf(stored), nil
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
		items[i] = s.copyOf(o)
	}
	return informer.List[Object[T]]{Items: items, Version: version}, nil
}

// Create implements [Writer].
func (s *MemoryStore[T]) Create(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if obj.Key == "" {
		return Object[T]{}, s.fail(OpCreate, "", errNoKey)
	}
	next := new(Object[T])
	*next = obj
	next.deepenEnvelope()
	s.values.deepen(&next.Value)
	next.UID = s.db.cfg.NewUID()
	stored, err := s.write(ctx, OpCreate, draft[T]{next: next}, pre, (*MemoryStore[T]).createLocked)
	if err != nil {
		return Object[T]{}, err
	}
	return s.copyOf(stored), nil
}

// Update implements [Writer].
func (s *MemoryStore[T]) Update(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	return s.update(ctx, OpUpdate, &obj, pre, (*MemoryStore[T]).updateLocked)
}

// UpdateStatus implements [Writer].
func (s *MemoryStore[T]) UpdateStatus(ctx context.Context, obj Object[T], pre ...Precondition) (Object[T], error) {
	if s.withStatus == nil {
		return Object[T]{}, s.fail(OpUpdateStatus, obj.Key, ErrNoStatus)
	}
	return s.update(ctx, OpUpdateStatus, &obj, pre, (*MemoryStore[T]).updateStatusLocked)
}

func (s *MemoryStore[T]) update(
	ctx context.Context, op string, obj *Object[T], pre []Precondition, apply applyFunc[T],
) (Object[T], error) {
	var room [4]Precondition
	pre = append(append(room[:0], pre...), IfVersion(obj.Version))
	if obj.UID != "" {
		pre = append(pre, IfUID(obj.UID))
	}
	for {
		stored, err := s.write(ctx, op, s.draft(op, obj), pre, apply)
		switch {
		case err != nil:
			return Object[T]{}, err
		case stored != nil:
			return s.copyOf(stored), nil
		}
		// The version that obj is to replace was written after draft looked for it. The next draft finds it, or the next
		// write is refused.
	}
}

// draft is what is to be stored.
type draft[T any] struct {
	next *Object[T] // nobody else holds it

	// base is the version that next is to replace, and that it was made from: they share what is equal. It is nil if next was
	// made from none.
	base *Object[T]

	sameValue, sameEnvelope bool // in next and base
}

// draft returns what op makes of the version that obj is to replace. That version never changes, so that it can be taken apart
// without the lock. If it is not the stored one there is nothing to be made of it: the write will be refused.
func (s *MemoryStore[T]) draft(op string, obj *Object[T]) draft[T] {
	s.db.mu.RLock()
	base := s.objects[obj.Key]
	s.db.mu.RUnlock()
	next := &Object[T]{Key: obj.Key}
	if base == nil || base.Version != obj.Version {
		return draft[T]{next: next}
	}
	d := draft[T]{next: next, base: base}
	switch {
	case s.withStatus == nil:
		next.Value = obj.Value
	case op == OpUpdateStatus:
		next.Value = s.withStatus(s.values.copyOf(&base.Value), obj.Value)
	default:
		next.Value = s.withStatus(obj.Value, s.values.copyOf(&base.Value))
	}
	d.sameValue = s.values.adopt(&next.Value, &base.Value)
	envelope := obj
	if op == OpUpdateStatus {
		envelope = base
	}
	d.sameEnvelope = next.setEnvelope(envelope, base)
	return d
}

// Delete implements [Writer].
func (s *MemoryStore[T]) Delete(ctx context.Context, key string, pre ...Precondition) (Object[T], error) {
	deleted, err := s.write(ctx, OpDelete, draft[T]{next: &Object[T]{Key: key}}, pre, (*MemoryStore[T]).deleteLocked)
	if err != nil {
		return Object[T]{}, err
	}
	return s.copyOf(deleted), nil
}

// applyFunc does an admitted write of a draft. It gets the object that is stored, or nil. It returns the object to return, or
// nil when it has done nothing, because the draft was not made from what is stored.
type applyFunc[T any] func(s *MemoryStore[T], old *Object[T], d draft[T]) *Object[T]

// write lets apply do the write if it is admitted.
func (s *MemoryStore[T]) write(
	ctx context.Context, op string, d draft[T], pre []Precondition, apply applyFunc[T],
) (*Object[T], error) {
	key := d.next.Key
	if ctx.Err() != nil {
		return nil, s.fail(op, key, context.Cause(ctx))
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	id := RequestOf(pre...)
	if id != "" {
		if was, ok := s.db.writes.find(id); ok {
			return s.repeated(was, op, key)
		}
	}
	old := s.objects[key]
	have := Current{Term: s.db.term}
	if old != nil {
		have.Version, have.UID = old.Version, old.UID
	}
	term, err := Admit(op, s.kind, key, have, pre...)
	if err != nil {
		return nil, err
	}
	result := apply(s, old, d)
	if result == nil {
		return nil, nil
	}
	s.db.term = term
	if id != "" {
		s.db.writes.add(request{id: id, op: op, kind: s.kind, key: key, result: result})
	}
	return result, nil
}

// repeated returns what the request returned, if it is the one of this write.
func (s *MemoryStore[T]) repeated(was request, op, key string) (*Object[T], error) {
	if was.op != op || was.kind != s.kind || was.key != key {
		return nil, s.fail(op, key, fmt.Errorf("%w: %q was to %s %s %q", ErrRequest, was.id, was.op, was.kind, was.key))
	}
	return was.result.(*Object[T]), nil
}

func (s *MemoryStore[T]) createLocked(_ *Object[T], d draft[T]) *Object[T] {
	d.next.Generation, d.next.Created, d.next.Deleting = 1, now(), time.Time{}
	return s.commitLocked(informer.Added, d.next)
}

func (s *MemoryStore[T]) updateLocked(old *Object[T], d draft[T]) *Object[T] {
	generation := old.Generation
	if !d.sameValue { // the status is that of old: it is what was asked for that differs
		generation++
	}
	return s.replaceLocked(old, d, generation)
}

func (s *MemoryStore[T]) updateStatusLocked(old *Object[T], d draft[T]) *Object[T] {
	return s.replaceLocked(old, d, old.Generation)
}

// replaceLocked puts the draft in the place of old, if they differ.
func (s *MemoryStore[T]) replaceLocked(old *Object[T], d draft[T], generation int64) *Object[T] {
	if d.base != old {
		return nil
	}
	next := d.next
	next.UID, next.Created, next.Deleting, next.Generation = old.UID, old.Created, old.Deleting, generation
	switch {
	case !next.Deleting.IsZero() && len(next.Finalizers) == 0:
		return s.commitLocked(informer.Deleted, next)
	case d.sameValue && d.sameEnvelope:
		return old
	default:
		return s.commitLocked(informer.Modified, next)
	}
}

func (s *MemoryStore[T]) deleteLocked(old *Object[T], _ draft[T]) *Object[T] {
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

// copyOf returns a deep copy of what is stored.
func (s *MemoryStore[T]) copyOf(stored *Object[T]) Object[T] {
	o := *stored
	o.deepenEnvelope()
	o.Value = s.values.copyOf(&stored.Value)
	return o
}

func (s *MemoryStore[T]) fail(op, key string, err error) error {
	return &Error{Op: op, Kind: s.kind, Key: key, Err: err}
}

// now is the time as a database gives it: in UTC, and without the reading of the monotonic clock.
func now() time.Time { return time.Now().UTC().Round(0) }
