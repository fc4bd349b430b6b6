package informer

import (
	"context"
	"iter"
	"time"
)

// Map returns the source of what f makes of the objects of src: a part of them that is worth keeping, or another type.
// Versions, pages and errors are those of src. If src is an [Equaler], that is about its own objects: see [WithEqual] for
// those that f makes.
//
// The key of f(obj) must be a function of the key of obj, and two objects must not become one: neither keys nor objects
// may come or go by f. f must return the same for the same object each time, must not change its object, and must be safe
// for several goroutines at once. If it panics, so does the list or the watch: an [Informer] reports it and tries again.
func Map[S, T any](src ListWatcher[S], f func(S) T) ListWatcher[T] {
	if src == nil || f == nil {
		panic("informer: Map needs a source and a function")
	}
	return &mapped[S, T]{src, pagesOf(src), f}
}

// mapped pages, and promises bookmarks, as its source does.
type mapped[S, T any] struct {
	src   ListWatcher[S]
	pages func(context.Context) iter.Seq2[List[S], error]
	f     func(S) T
}

func (m *mapped[S, T]) BookmarkPeriod() time.Duration { return bookmarkPeriod(m.src) }

func (m *mapped[S, T]) List(ctx context.Context) (List[T], error) { return Collect(m.ListPages(ctx)) }

func (m *mapped[S, T]) ListPages(ctx context.Context) iter.Seq2[List[T], error] {
	return func(yield func(List[T], error) bool) {
		for page, err := range m.pages(ctx) {
			if err != nil {
				yield(List[T]{}, err)
				return
			}
			made := List[T]{Items: make([]T, len(page.Items)), Version: page.Version}
			for i, obj := range page.Items {
				made.Items[i] = m.f(obj)
			}
			for _, obj := range page.Unread {
				made.Unread = append(made.Unread, m.f(obj))
			}
			if !yield(made, nil) {
				return
			}
		}
	}
}

func (m *mapped[S, T]) Watch(ctx context.Context, after Version) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		for ev, err := range m.src.Watch(ctx, after) {
			made := Event[T]{Type: ev.Type, Version: ev.Version}
			if err == nil && ev.Type != Bookmark { // neither an error nor a bookmark has an object
				made.Object = m.f(ev.Object)
			}
			if !yield(made, err) {
				return
			}
		}
	}
}
