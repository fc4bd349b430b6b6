// Package cache has the part of the real package that the tests of the analyzers use.
package cache

import "iter"

type Tombstone[K comparable, T any] struct {
	Key    K
	Object T
}

type Indexer[K comparable, T any] struct{}

func NewIndexer[K comparable, T any](key func(T) K) *Indexer[K, T] { return nil }

func (x *Indexer[K, T]) Get(key K) (obj T, ok bool) { return }
func (x *Indexer[K, T]) All() iter.Seq2[K, T]       { return nil }

type Index[I, K comparable, T any] struct{}

func (x *Index[I, K, T]) All(value I) iter.Seq2[K, T] { return nil }
