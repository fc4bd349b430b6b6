// Package controller has the part of the real package that the tests of the analyzers use.
package controller

import (
	"context"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

type Result struct{ RequeueAfter time.Duration }

type Config[K comparable] struct {
	Workers int
	Resync  time.Duration
}

type Controller[K comparable] struct{}

func (c *Controller[K]) Add(key K)                          {}
func (c *Controller[K]) SetWorkers(n int)                   {}
func (c *Controller[K]) WaitIdle(ctx context.Context) error { return nil }

type Input[K comparable] interface{ input() }

func New[K comparable](name string, reconcile func(context.Context, K) (Result, error), cfg Config[K], inputs ...Input[K]) (*Controller[K], error) {
	return nil, nil
}

type Watch[K comparable, T any] struct{}

func (w Watch[K, T]) input() {}

func (w Watch[K, T]) When(news func(old, new T) bool) Watch[K, T] { return w }

func For[K comparable, T any](inf *informer.Informer[K, T]) Watch[K, T] { return Watch[K, T]{} }

func Watches[K, S comparable, T any](inf *informer.Informer[S, T], keysOf func(ctx context.Context, obj T) ([]K, error)) Watch[K, T] {
	return Watch[K, T]{}
}

func Handles[K, S comparable, T any](inf *informer.Informer[S, T], handler func(add func(K)) informer.Handler[S, T]) Watch[K, T] {
	return Watch[K, T]{}
}

func Logger(ctx context.Context) *slog.Logger { return nil }
