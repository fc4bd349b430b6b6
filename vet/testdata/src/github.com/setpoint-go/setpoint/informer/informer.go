// Package informer has the part of the real package that the tests of the analyzers use.
package informer

import (
	"iter"

	"github.com/setpoint-go/setpoint/cache"
)

type Informer[K comparable, T any] struct{}

func (in *Informer[K, T]) Get(key K) (obj T, ok bool) { return }
func (in *Informer[K, T]) All() iter.Seq2[K, T]       { return nil }

type Handler[K comparable, T any] struct {
	OnAdd    func(obj T, inInitialList bool)
	OnUpdate func(old, new T)
	OnDelete func(cache.Tombstone[K, T])
	Filter   func(T) bool
}
