package informer

import (
	"context"
	"iter"
	"time"
)

// Filter returns a source of the objects of src for which keep returns true. Its versions are those of src, and so are its pages, bookmarks,
// errors, and Equal. The creation of an object that does not pass becomes a [Bookmark], so a caller can wait for the version of any write to
// src. Filter panics if src or keep is nil.
//
// If an update moves an object out of the filter, the event is a deletion with the new state. The filter has no memory, so that a watch can
// begin at any version. This has two effects. The deletion is reported whether or not the object passed before. An update that moves an
// object into the filter is reported as Modified, not Added. An [Informer] knows which objects passed, so its cache and its handlers are
// exact, and a deletion also has the state that passed: see [cache.Tombstone]. Code that reads the watch directly must track this itself.
//
// Objects that cannot be read pass every filter, because keep cannot judge them: see [List].Unread and [Unreadable].
//
// keep must always return the same result for the same object, and be safe for concurrent use. To filter for one handler of an informer,
// use [Handler].Filter, which needs no second cache.
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

// filter has the pages, the Equal, and the bookmarks of its source.
type filter[T any] struct {
	src   ListWatcher[T]
	pages func(context.Context) iter.Seq2[List[T], error]
	equal func(a, b T) bool
	keep  func(T) bool
}

func (f *filter[T]) Equal(a, b T) bool { return f.equal(a, b) }

func (f *filter[T]) Source() any { return f.src }

func (f *filter[T]) BookmarkPeriod() time.Duration { return bookmarkPeriod(f.src) }

func (f *filter[T]) List(ctx context.Context) (List[T], error) { return Collect(f.ListPages(ctx)) }

func (f *filter[T]) ListPages(ctx context.Context) iter.Seq2[List[T], error] {
	return func(yield func(List[T], error) bool) {
		for page, err := range f.pages(ctx) {
			if err != nil {
				yield(List[T]{}, err)
				return
			}
			kept := List[T]{Version: page.Version, Unread: page.Unread, Missing: page.Missing} // unknown whether they pass
			for _, obj := range page.Items {                                                   // not in place: the source may own the slice
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
	return f.pass(f.src.Watch(ctx, after))
}

// pass returns what f makes of the events of its source.
func (f *filter[T]) pass(events iter.Seq2[Event[T], error]) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		for ev, err := range events {
			if err == nil {
				ev = f.event(ev)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// event returns the event of the filter for ev. A deletion always passes: the last state of an object that passed may not
// pass.
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

// Map returns a source of the results of f for the objects of src. Usually f keeps only the needed part of an object. Versions, pages,
// bookmarks, and errors are those of src. The result is not an [Equaler], since src can compare only its own objects.
//
// f must map objects one to one: the key of f(obj) must depend only on the key of obj, and different keys must stay different. f must
// always return the same result for the same object, must not change the object, and must be safe for concurrent use. If f panics, so does
// the list or the watch: an [Informer] reports that and retries. Map itself panics if src or f is nil.
func Map[S, T any](src ListWatcher[S], f func(S) T) ListWatcher[T] {
	if src == nil || f == nil {
		panic("informer: Map needs a source and a function")
	}
	return &mapped[S, T]{src, pagesOf(src), f}
}

// mapped has the pages and the bookmarks of its source.
type mapped[S, T any] struct {
	src   ListWatcher[S]
	pages func(context.Context) iter.Seq2[List[S], error]
	f     func(S) T
}

func (m *mapped[S, T]) Source() any { return m.src }

func (m *mapped[S, T]) BookmarkPeriod() time.Duration { return bookmarkPeriod(m.src) }

func (m *mapped[S, T]) List(ctx context.Context) (List[T], error) { return Collect(m.ListPages(ctx)) }

func (m *mapped[S, T]) ListPages(ctx context.Context) iter.Seq2[List[T], error] {
	return func(yield func(List[T], error) bool) {
		for page, err := range m.pages(ctx) {
			if err != nil {
				yield(List[T]{}, err)
				return
			}
			made := List[T]{Items: make([]T, len(page.Items)), Version: page.Version, Missing: page.Missing}
			for i, obj := range page.Items {
				made.Items[i] = m.f(obj)
			}
			for _, u := range page.Unread {
				made.Unread = append(made.Unread, Unread[T]{m.f(u.Object), u.Err})
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
			made := Event[T]{Type: ev.Type, KeyOnly: ev.KeyOnly, Err: ev.Err, Version: ev.Version}
			if err == nil && ev.Type != Bookmark { // neither an error nor a bookmark has an object
				made.Object = m.f(ev.Object)
			}
			if !yield(made, err) {
				return
			}
		}
	}
}
