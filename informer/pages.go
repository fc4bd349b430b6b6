package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Pager is what a source may be besides a [ListWatcher]: one whose list comes in pages, because it holds so many objects
// that nobody wants all of them in one slice. An [Informer] lists by pages where it can. It holds the pages until the last
// one has come, so that an error in the middle leaves the cache as it was.
type Pager[T any] interface {
	// ListPages yields what List returns, piece by piece: every object once, on one page or another, and on each page the
	// version at which the whole list is current, the same for all of them. There is at least one page; a page may be
	// empty. It yields a last error, alone, when it cannot go on, such as the cause of ctx when ctx ends; a sequence that
	// stops without one says that the list is whole. Pages and what is on them must not change afterwards. The consumer
	// ends it early by leaving its loop.
	ListPages(ctx context.Context) iter.Seq2[List[T], error]
}

// Collect returns the whole list of pages. It makes List out of ListPages for a source that has both:
//
//	func (s *Sites) List(ctx context.Context) (informer.List[Site], error) { return informer.Collect(s.ListPages(ctx)) }
//
// It returns an error when the pages are not of one version, or when there is none.
func Collect[T any](pages iter.Seq2[List[T], error]) (List[T], error) {
	var whole List[T]
	n := 0
	for page, err := range pages {
		if err != nil {
			return List[T]{}, err
		}
		if err := samePages(n, whole.Version, page.Version); err != nil {
			return List[T]{}, fmt.Errorf("informer: collect pages: %w", err)
		}
		n++
		whole.Version = page.Version
		if whole.Items == nil {
			whole.Items = slices.Clip(page.Items) // there is mostly one page; the next one does not write to this one
		} else {
			whole.Items = append(whole.Items, page.Items...)
		}
		whole.Unread = append(whole.Unread, page.Unread...)
	}
	if n == 0 {
		return List[T]{}, fmt.Errorf("informer: collect pages: %w", errNoPage)
	}
	return whole, nil
}

// errNoPage is the error of a list without a page, which has no version.
var errNoPage = errors.New("the list has no page")

// samePages returns an error unless a page belongs to the n pages before it, which are of version first.
func samePages(n int, first, version Version) error {
	if n > 0 && version != first {
		return fmt.Errorf("page %d of the list is of version %d, the first one of version %d", n+1, version, first)
	}
	return nil
}

// pagesOf returns the pages of a source: what List returns is one, if it has no others.
func pagesOf[T any](src ListWatcher[T]) func(context.Context) iter.Seq2[List[T], error] {
	if pager, ok := src.(Pager[T]); ok {
		return pager.ListPages
	}
	return func(ctx context.Context) iter.Seq2[List[T], error] {
		return func(yield func(List[T], error) bool) { yield(src.List(ctx)) }
	}
}
