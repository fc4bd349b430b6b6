package informertest

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
)

// Paged returns the same source as an [informer.Pager], with size objects on a page. All pages of a list show the time at which the first
// one was requested. Whether the list fails is also decided then. Paged panics if size is not positive.
func (s *Source[K, T]) Paged(size int) informer.ListWatcher[T] {
	if size <= 0 {
		panic("informertest: Paged needs a size of pages")
	}
	return &paged[K, T]{s, size}
}

type paged[K comparable, T any] struct {
	*Source[K, T]
	size int
}

// ListPages implements [informer.Pager].
func (p *paged[K, T]) ListPages(ctx context.Context) iter.Seq2[informer.List[T], error] {
	return p.pages(ctx, p.size)
}

// pages yields a list with size objects on a page, or on one page if size is 0.
func (s *Source[K, T]) pages(ctx context.Context, size int) iter.Seq2[informer.List[T], error] {
	return func(yield func(informer.List[T], error) bool) {
		list, after, fail := s.list()
		size := cmp.Or(size, len(list.Items))
		for n := 0; ; n++ {
			whole := n > 0 && len(list.Items) == 0
			err := context.Cause(ctx)
			if err == nil && (n == after || whole) {
				err = fail
			}
			switch {
			case err != nil:
				yield(informer.List[T]{}, err)
				return
			case whole:
				return
			}
			i := min(size, len(list.Items))
			if !yield(informer.List[T]{Items: list.Items[:i:i], Unread: list.Unread, Version: list.Version}, nil) {
				return
			}
			list.Items, list.Unread = list.Items[i:], nil // the first page has all that are unread
		}
	}
}

// list returns what a list yields now: the objects, after how many pages it fails, and the error, if any.
func (s *Source[K, T]) list() (list informer.List[T], after int, fail error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen != nil {
		list = *s.frozen
		list.Items = slices.Clone(list.Items)
	} else {
		list = s.listLocked()
	}
	return list, s.after, s.lists
}
