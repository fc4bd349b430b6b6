package informer

import (
	"context"
	"slices"
	"sync"
)

// input is what the reflector passes to Run: an event, or a list.
type input[K comparable, T any] struct {
	kind    EventType
	missed  bool  // kind is Deleted, and a list revealed the deletion
	keyOnly bool  // kind is Deleted, and object has only its key
	err     error // kind is Unreadable
	key     K     // unless kind is Bookmark
	object  T
	version Version

	list *content[K, T] // if set, the input is a list, and only list and version are set
	drop []int          // if set, the input is the end of these slots, and only drop and version are set
}

// content is a list with the keys of its objects, page by page.
type content[K comparable, T any] struct {
	pages    []page[K, T]
	unread   []unreadKey[K]
	missing  []error
	partial  bool         // the list has only the objects of slots, of which the cache has none
	slots    []int        // if partial; there may be none
	version  Version      // of the list
	starts   bool         // the list begins a new history of the source
	joins    func(T) bool // whether an object is in a slot that the list before did not have; nil if there is no such slot
	requests requests     // made before the list began
}

// requests are the numbers of requests that a reflector has seen.
type requests struct {
	resets uint64 // new histories that were requested, or that a watch has noticed
	lists  uint64 // calls of CatchUp that need a list
	holds  uint64 // calls of Hold
}

// unreadKey is the key of an object that exists and could not be read.
type unreadKey[K comparable] struct {
	key K
	err error
}

// add adds a page.
func (c *content[K, T]) add(items []T, keyOf func(T) K) {
	keys := make([]K, len(items))
	for i, obj := range items {
		keys[i] = keyOf(obj)
	}
	c.pages = append(c.pages, page[K, T]{keys, items})
}

// buffer passes inputs from the reflector to Run, in order and unmerged: so the cache takes every state that the source has reported. It
// holds at most maxBatch inputs. When it is full, the reflector waits for the cache. The cache never waits for handlers.
type buffer[K comparable, T any] struct {
	wake func()        // called, without locks, after the first input was added
	room chan struct{} // holds a token after inputs were taken; sent by take, received by put

	mu sync.Mutex
	// mu guards the following.
	inputs []input[K, T]
}

// put adds an input, when there is room for it. If ctx ends first, it returns the cause of ctx.
func (b *buffer[K, T]) put(ctx context.Context, it input[K, T]) error {
	for {
		n, ok := b.tryPut(&it)
		if ok {
			if n == 1 {
				b.wake()
			}
			return nil
		}
		select {
		case <-b.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryPut adds an input if there is room for it, and returns the number of inputs.
func (b *buffer[K, T]) tryPut(it *input[K, T]) (n int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.inputs) == maxBatch {
		return maxBatch, false
	}
	b.inputs = append(b.inputs, *it)
	return len(b.inputs), true
}

// takeOne removes the first input, and returns it in spare, which is empty.
func (b *buffer[K, T]) takeOne(spare []input[K, T]) []input[K, T] {
	b.mu.Lock()
	n := len(b.inputs)
	if n > 0 {
		spare = append(spare, b.inputs[0])
		b.inputs = slices.Delete(b.inputs, 0, 1)
	}
	b.mu.Unlock()
	if n > 1 {
		b.wake()
	}
	return spare
}

// take removes and returns all inputs. spare, which is empty, holds the next ones.
func (b *buffer[K, T]) take(spare []input[K, T]) []input[K, T] {
	b.mu.Lock()
	inputs := b.inputs
	b.inputs = spare
	b.mu.Unlock()
	select {
	case b.room <- struct{}{}:
	default: // a token is already there
	}
	return inputs
}

// len returns the number of inputs that wait.
func (b *buffer[K, T]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.inputs)
}
