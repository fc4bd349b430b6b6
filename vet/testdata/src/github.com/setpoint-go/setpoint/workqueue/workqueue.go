// Package workqueue has the part of the real package that the tests of the analyzers use.
package workqueue

import (
	"context"
	"time"
)

type Item[K comparable] struct{ Key K }

type Config[K comparable] struct{}

type Queue[K comparable] struct{}

func New[K comparable](cfg Config[K]) *Queue[K] { return nil }

func (q *Queue[K]) AddAfter(key K, d time.Duration) {}

func (q *Queue[K]) Run(ctx context.Context, workers int, work func(ctx context.Context, item Item[K]) error) error {
	return nil
}
