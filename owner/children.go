package owner

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/internal/statustag"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// Children manages the objects of one kind as children of their owners. Use [NewChildren] to make one.
//
//   - [Children.Apply] keeps the children of an owner as wanted, under keys that the owner knows.
//   - [Children.Claim] finds children by their properties, and adopts those that have no controller.
//   - [Children.Collect] deletes a child whose owners are all gone.
//   - [Cascade] deletes or releases all children of an owner before it goes.
//
// The cache shows which children exist; the store decides about each write. The methods may return objects from the cache, which must not
// be changed. They may be called concurrently.
type Children[C any] struct {
	// Among limits what [Cascade] reads to find the children of an owner: it returns a selection of objects, by their labels or
	// by a prefix of their keys, that has all children of the owner. Nil reads all objects of the kind. Set it before the first
	// call of any method.
	Among func(by store.Ref) store.Selector

	store  store.Store[C]
	seen   *store.Informer[C]
	owned  *cache.Index[string, string, store.Object[C]] // by UID of each owner, and by noController
	status statustag.Fields                              // of C
}

// noController is the index value of objects without a controller. No UID is empty.
const noController = ""

// NewChildren returns the children in s, which seen mirrors. It adds an index to seen. NewChildren panics if s or seen is nil.
func NewChildren[C any](s store.Store[C], seen *store.Informer[C]) *Children[C] {
	if s == nil {
		panic("owner: NewChildren called with a nil store")
	}
	if seen == nil {
		panic("owner: NewChildren called with a nil informer")
	}
	status, _ := statustag.Of(reflect.TypeFor[C]()) // store.Open has rejected an invalid tag
	return &Children[C]{store: s, seen: seen, owned: cache.AddIndex(seen.Indexer(), indexed[C]), status: status}
}

// indexed returns the index values of a child.
func indexed[C any](child store.Object[C]) []string {
	values := make([]string, 0, len(child.Owners)+1)
	controlled := false
	for _, ref := range child.Owners {
		if ref.UID != "" {
			values = append(values, ref.UID)
		}
		controlled = controlled || ref.Controller
	}
	if !controlled {
		values = append(values, noController)
	}
	return values
}

// Kind is the kind of the children.
func (c *Children[C]) Kind() string { return c.store.Kind() }

// Informer is the informer that NewChildren was given.
func (c *Children[C]) Informer() *store.Informer[C] { return c.seen }

// Of returns the children in the cache that by controls, in order of key, including those that are being deleted.
func (c *Children[C]) Of(by store.Ref) []store.Object[C] {
	return c.cached(by, func(child store.Object[C]) bool { return controlledBy(child, by) })
}

// Keys returns the keys of the children in the cache that have the given owner, whether it controls them or not, in order. When
// the owner is gone, call [Children.Collect] for each of them.
func (c *Children[C]) Keys(of store.Ref) []string {
	var keys []string
	owned := func(child store.Object[C]) bool {
		return slices.ContainsFunc(child.Owners, func(ref store.OwnerRef) bool { return ref.Ref == of })
	}
	for _, child := range c.cached(of, owned) {
		keys = append(keys, child.Key)
	}
	return keys
}

// cached returns the children in the cache that have an owner with the UID of by and are wanted, in order of key. An owner without a UID
// was never stored, and has no children.
func (c *Children[C]) cached(by store.Ref, wanted func(store.Object[C]) bool) []store.Object[C] {
	if by.UID == "" {
		return nil
	}
	return c.indexed(by.UID, wanted)
}

// indexed returns the objects that the index finds by value and that are wanted, in order of key.
func (c *Children[C]) indexed(value string, wanted func(store.Object[C]) bool) []store.Object[C] {
	var found []store.Object[C]
	for _, child := range c.owned.All(value) {
		if wanted(child) {
			found = append(found, child)
		}
	}
	slices.SortFunc(found, func(a, b store.Object[C]) int { return strings.Compare(a.Key, b.Key) })
	return found
}

// Collect deletes the child under key if all its owners are gone, whether they control it or not. If some are gone and others exist,
// Collect removes the references to those that are gone, so that another owner may control the child. It reports whether it asked the store
// to delete the child: a child with finalizers still exists then, and is being deleted.
//
// Each owner is read from the [Owners] of its kind, after the child was read. An owner that is being deleted exists until it is gone. If
// an owner cannot be read, is of none of these kinds, or has a reference without a UID, Collect returns an error and writes nothing. If
// there is no such child, or the child has no owners or is already being deleted, Collect does nothing and returns nil.
//
// If the child stays, but a cache does not show one of its owners (see [Watched]), Collect returns an error of retry.NotYet, so that the child is
// collected again after 10 seconds. The cache may be about to show the owner. But if its watch is interrupted, and the owner is gone before it
// lists again, it never shows the owner, and never reports the deletion.
//
// Every error may be retried. An error that wraps store.ErrConflict means that another writer changed the child in the meantime.
func (c *Children[C]) Collect(ctx context.Context, key string, owners ...Owners) (deleted bool, err error) {
	child, err := c.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, c.failed("collect", key, err)
	}
	if len(child.Owners) == 0 || !child.Deleting.IsZero() {
		return false, nil
	}
	gone := map[store.Ref]bool{}
	for _, ref := range child.Owners {
		exists, _, err := read(ctx, ref.Ref, owners)
		if err != nil {
			return false, c.failed("collect", key, fmt.Errorf("read its owner %s: %w", name(ref.Ref), err))
		}
		if !exists {
			gone[ref.Ref] = true
		}
	}
	left := disown(child, func(ref store.OwnerRef) bool { return gone[ref.Ref] })
	switch {
	case len(left) == len(child.Owners): // nothing to write
	case len(left) > 0:
		child.Owners = left
		_, err = c.store.Update(ctx, child)
	default:
		_, err = c.store.Delete(ctx, key, store.IfUID(child.UID), store.IfVersion(child.Version))
	}
	if errors.Is(err, store.ErrNotFound) {
		return false, nil // another writer deleted it
	}
	if err != nil {
		return false, c.failed("collect", key, err)
	}
	if ref, ok := unseen(left, owners); ok {
		return false, c.failed("collect", key, retry.NotYet(fmt.Errorf("the cache does not show its owner %s", name(ref)), unseenDelay))
	}
	return len(left) == 0, nil
}

// unseenDelay is how long a child waits to be collected again whose owner a cache does not show.
const unseenDelay = 10 * time.Second

func (c *Children[C]) failed(do, key string, err error) error {
	return fmt.Errorf("owner: %s %s %q: %w", do, c.store.Kind(), key, err)
}

// Owners are the owners of one kind, regardless of their type. [In] returns those in a store, and [Watched] those that an informer watches.
type Owners struct {
	Kind string

	// Get reads the owner under key from where it is stored, not from a cache. It returns its UID, and whether it is being
	// deleted; or an error that wraps store.ErrNotFound if there is none.
	Get func(ctx context.Context, key string) (uid string, deleting bool, err error)

	// Cached, if set, returns the UID of the owner under key in the cache whose events have children collected, and whether it is there. [Children.Collect]
	// comes back to a child whose owner that cache does not show: see there.
	Cached func(key string) (uid string, ok bool)
}

// In returns the owners in s. It panics if s is nil.
func In[T any](s store.Store[T]) Owners {
	if s == nil {
		panic("owner: In called with a nil store")
	}
	return Owners{Kind: s.Kind(), Get: func(ctx context.Context, key string) (string, bool, error) {
		o, err := s.Get(ctx, key)
		return o.UID, !o.Deleting.IsZero(), err
	}}
}

// Watched returns the owners in s, which seen mirrors: use it where the deletions that seen reports have the children collected. It panics if s or
// seen is nil.
func Watched[T any](s store.Store[T], seen *store.Informer[T]) Owners {
	if seen == nil {
		panic("owner: Watched called with a nil informer")
	}
	owners := In(s)
	owners.Cached = func(key string) (string, bool) {
		o, ok := seen.Get(key)
		return o.UID, ok
	}
	return owners
}

// unseen returns the first owner in refs that its cache does not show.
func unseen(refs []store.OwnerRef, owners []Owners) (store.Ref, bool) {
	for _, ref := range refs {
		for _, o := range owners {
			if o.Kind != ref.Kind || o.Cached == nil {
				continue
			}
			if uid, ok := o.Cached(ref.Key); !ok || uid != ref.UID {
				return ref.Ref, true
			}
		}
	}
	return store.Ref{}, false
}

// read reports whether an owner exists, with the UID of ref, and whether it is being deleted.
func read(ctx context.Context, ref store.Ref, from []Owners) (exists, deleting bool, err error) {
	if err := complete(ref); err != nil { // without a UID, no owner would be the one
		return false, false, err
	}
	i := slices.IndexFunc(from, func(o Owners) bool { return o.Kind == ref.Kind })
	if i < 0 { // otherwise a child of another kind of owner would look like an orphan
		return false, false, fmt.Errorf("there are no Owners of kind %q", ref.Kind)
	}
	uid, deleting, err := from[i].Get(ctx, ref.Key)
	if errors.Is(err, store.ErrNotFound) {
		return false, false, nil
	}
	return err == nil && uid == ref.UID, deleting, err
}
