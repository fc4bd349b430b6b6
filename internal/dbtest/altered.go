package dbtest

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
)

// PagedSource is what the sources of databases with pages have in common.
type PagedSource[T any] interface {
	informer.ListWatcher[T]
	informer.Pager[T]
	informer.Bookmarker
	informer.Versioner
}

// Altered is a source that breaks a promise, which a suite must notice. A nil function breaks nothing.
type Altered[T any] struct {
	PagedSource[T]
	WatchWith func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error]
	PagesWith func(ctx context.Context) iter.Seq2[informer.List[T], error]
}

// Watch implements [informer.ListWatcher].
func (a Altered[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	if a.WatchWith == nil {
		return a.PagedSource.Watch(ctx, after)
	}
	return a.WatchWith(ctx, after)
}

// ListPages implements [informer.Pager].
func (a Altered[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[T], error] {
	if a.PagesWith == nil {
		return a.PagedSource.ListPages(ctx)
	}
	return a.PagesWith(ctx)
}

// List implements [informer.ListWatcher].
func (a Altered[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(a.ListPages(ctx))
}

// AlterEvents returns a source whose watches yield other events instead of each event.
func AlterEvents[T any](source PagedSource[T], change func(e informer.Event[T]) []informer.Event[T]) Altered[T] {
	return Altered[T]{PagedSource: source, WatchWith: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
		return func(yield func(informer.Event[T], error) bool) {
			for e, err := range source.Watch(ctx, after) {
				events := []informer.Event[T]{e}
				if err == nil {
					events = change(e)
				}
				for _, e := range events {
					if !yield(e, err) {
						return
					}
				}
			}
		}
	}}
}

// AlterEvent returns a source whose watches change each event, or drop it.
func AlterEvent[T any](source PagedSource[T], change func(e *informer.Event[T]) (keep bool)) Altered[T] {
	return AlterEvents(source, func(e informer.Event[T]) []informer.Event[T] {
		if !change(&e) {
			return nil
		}
		return []informer.Event[T]{e}
	})
}

// EndWhereUnreadable returns a source whose watches end at an object that cannot be read.
func EndWhereUnreadable[T any](source PagedSource[T]) Altered[T] {
	return Altered[T]{PagedSource: source, WatchWith: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
		return func(yield func(informer.Event[T], error) bool) {
			for e, err := range source.Watch(ctx, after) {
				if e.Type == informer.Unreadable {
					yield(informer.Event[T]{}, e.Err)
					return
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}}
}

// AlterPages returns a source whose lists change each page.
func AlterPages[T any](source PagedSource[T], change func(page *informer.List[T])) Altered[T] {
	return Altered[T]{PagedSource: source, PagesWith: func(ctx context.Context) iter.Seq2[informer.List[T], error] {
		return func(yield func(informer.List[T], error) bool) {
			for page, err := range source.ListPages(ctx) {
				if err == nil {
					change(&page)
				}
				if !yield(page, err) {
					return
				}
			}
		}
	}}
}
