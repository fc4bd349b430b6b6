package informer

import (
	"context"
	"iter"
	"time"
)

// Filter returns the source of those objects of src for which keep returns true. Versions are those of src, so whoever
// waits for the version of a write to src does not wait in vain: what does not pass leaves a [Bookmark] behind.
//
// An update by which an object leaves the filter is a deletion, whose object is the state with which it left. The filter
// remembers nothing, so that a watch can start anywhere, and this has two effects. The deletion is told whether or not
// the object was there before, and an update by which an object enters is a Modified, not an Added. An [Informer] knows
// what was there: its cache and its handlers are exact. Who reads the watch alone has to know it, too.
//
// keep must return the same for the same object each time, and be safe for several goroutines at once. To choose for one
// handler of an informer there is [Handler].Filter, which needs no cache of its own.
func Filter[T any](src ListWatcher[T], keep func(T) bool) ListWatcher[T] {
	if src == nil || keep == nil {
		panic("informer: Filter needs a source and a function")
	}
	f := &filter[T]{src, pagesOf(src), equalOf(src), keep}
	if f.equal == nil {
		f.equal = func(T, T) bool { return false }
	}
	return f
}

// filter pages and compares as its source does.
type filter[T any] struct {
	src   ListWatcher[T]
	pages func(context.Context) iter.Seq2[List[T], error]
	equal func(a, b T) bool
	keep  func(T) bool
}

func (f *filter[T]) Equal(a, b T) bool { return f.equal(a, b) }

func (f *filter[T]) BookmarkPeriod() time.Duration { return bookmarkPeriod(f.src) }

func (f *filter[T]) List(ctx context.Context) (List[T], error) { return Collect(f.ListPages(ctx)) }

func (f *filter[T]) ListPages(ctx context.Context) iter.Seq2[List[T], error] {
	return func(yield func(List[T], error) bool) {
		for page, err := range f.pages(ctx) {
			if err != nil {
				yield(List[T]{}, err)
				return
			}
			kept := List[T]{Version: page.Version, Unread: page.Unread} // who knows
			for _, obj := range page.Items {                            // not in place: the items may be the source's own
				if f.keep(obj) {
					kept.Items = append(kept.Items, obj)
				}
			}
			if !yield(kept, nil) {
				return
			}
		}
	}
}

func (f *filter[T]) Watch(ctx context.Context, after Version) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		for ev, err := range f.src.Watch(ctx, after) {
			if err == nil {
				ev = f.event(ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// event returns what ev is to those who see what passes only. A deletion always passes: the last state of an object that
// was in the filter may be one that is not.
func (f *filter[T]) event(ev Event[T]) Event[T] {
	switch {
	case ev.Type != Added && ev.Type != Modified || f.keep(ev.Object):
	case ev.Type == Added:
		return Event[T]{Type: Bookmark, Version: ev.Version}
	default:
		ev.Type = Deleted
	}
	return ev
}
