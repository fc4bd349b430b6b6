package informer

import (
	"context"
	"slices"
	"sync"
)

// input is what the reflector tells Run: an event, or a list.
type input[K comparable, T any] struct {
	kind    EventType
	missed  bool // kind is Deleted, and a list has brought it to light
	key     K    // unless kind is Bookmark
	object  T
	version Version

	list *content[K, T] // if this is set, it is a list of version, and nothing else is set
}

// content is a list with the keys of its objects, page by page.
type content[K comparable, T any] struct {
	pages  []page[K, T]
	unread []K  // keys of objects that are there and could not be read
	starts bool // a history of the source starts with it, which has nothing to do with the one before
}

// page is a part of a list: the object at index i has the key at index i.
type page[K comparable, T any] struct {
	keys  []K
	items []T
}

// add adds a page.
func (c *content[K, T]) add(items []T, keyOf func(T) K) {
	keys := make([]K, len(items))
	for i, obj := range items {
		keys[i] = keyOf(obj)
	}
	c.pages = append(c.pages, page[K, T]{keys, items})
}

// feed carries inputs from the reflector to Run, in order, and none is merged with another: so the cache goes through
// every state that the source has told of. It holds maxBatch of them at most; then the reflector waits for the cache,
// which waits for nobody.
type feed[K comparable, T any] struct {
	wake func()        // called, without locks, when the first input has come
	room chan struct{} // holds a token when inputs were taken; sent by take, taken by put

	mu sync.Mutex
	// mu guards the following.
	inputs []input[K, T]
}

// put adds an input, when there is room for it. It returns the cause of ctx when ctx ends before.
func (f *feed[K, T]) put(ctx context.Context, it input[K, T]) error {
	for {
		n, ok := f.tryPut(&it)
		if ok {
			if n == 1 {
				f.wake()
			}
			return nil
		}
		select {
		case <-f.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryPut adds an input if there is room for it, and returns how many there are.
func (f *feed[K, T]) tryPut(it *input[K, T]) (n int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.inputs) == maxBatch {
		return maxBatch, false
	}
	f.inputs = append(f.inputs, *it)
	return len(f.inputs), true
}

// takeOne returns the first input of those that have come, in spare, which is empty.
func (f *feed[K, T]) takeOne(spare []input[K, T]) []input[K, T] {
	f.mu.Lock()
	n := len(f.inputs)
	if n > 0 {
		spare = append(spare, f.inputs[0])
		f.inputs = slices.Delete(f.inputs, 0, 1)
	}
	f.mu.Unlock()
	if n > 1 {
		f.wake()
	}
	return spare
}

// full reports whether put would wait.
func (f *feed[K, T]) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inputs) == maxBatch
}

// take returns what has come, and takes spare, which is empty, as the room for what comes next.
func (f *feed[K, T]) take(spare []input[K, T]) []input[K, T] {
	f.mu.Lock()
	inputs := f.inputs
	f.inputs = spare
	f.mu.Unlock()
	select {
	case f.room <- struct{}{}:
	default: // a token is there
	}
	return inputs
}
