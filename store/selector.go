package store

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Selector says which objects a Select returns or a WatchSelected tells of: those that all of it holds for. The zero value
// selects all. Its fields are the Prefix of the key, and rules about Labels.
type Selector = backend.Query

// LabelRule is a rule about one label of an object:
//
//	{Label: "tier"}                                 there is such a label
//	{Label: "tier", Not: true}                      there is none
//	{Label: "tier", Values: {"front"}}              it has one of these values
//	{Label: "tier", Values: {"front"}, Not: true}   it has none of these values, or is not there
type LabelRule = backend.LabelRule

// InNamespace selects the objects whose keys are "namespace/name". Labels may be added to what it returns.
func InNamespace(namespace string) Selector { return Selector{Prefix: namespace + "/"} }

// Selected returns the source of the objects of s that sel selects, for an informer that need not mirror a whole kind: the
// objects of a tenant, or of a shard.
//
//	front := store.InNamespace("shop")
//	inf, err := informer.New(store.Selected(apps, front), store.Key[App], informer.Config{})
//
// It is an informer.Equaler. Versions are those of s, so whoever waits for the version of any write does not wait in vain.
func Selected[T any](s Store[T], sel Selector) informer.ListWatcher[Object[T]] {
	if s == nil {
		panic("store: Selected needs a store")
	}
	return &selected[T]{s, sel}
}

type selected[T any] struct {
	store Store[T]
	sel   Selector
}

func (s *selected[T]) Equal(a, b Object[T]) bool { return s.store.Equal(a, b) }

func (s *selected[T]) List(ctx context.Context) (informer.List[Object[T]], error) {
	return s.store.Select(ctx, s.sel)
}

func (s *selected[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[Object[T]], error] {
	return s.store.WatchSelected(ctx, s.sel, after)
}
