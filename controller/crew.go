package controller

import (
	"context"
	"sync"
	"sync/atomic"
)

// crew is the workers of one Run. Its methods are called with Controller.mu held, but wait.
type crew[K comparable] struct {
	ctx     context.Context // ends the workers
	work    func(ctx context.Context, s *seat[K])
	replace func(s *seat[K]) // called, without locks, by a worker that ends although nobody has told it to
	seats   []*seat[K]
	running sync.WaitGroup
}

// seat is the place of one worker.
type seat[K comparable] struct {
	ctx     context.Context // ends the worker when it has done what it does
	stop    context.CancelFunc
	current atomic.Pointer[try[K]] // what the worker does; nil for nothing
}

// resizeLocked makes it n workers. Those that are too many end when they have done what they do.
func (w *crew[K]) resizeLocked(n int) {
	for len(w.seats) < n {
		s := &seat[K]{}
		s.ctx, s.stop = context.WithCancel(w.ctx)
		w.seats = append(w.seats, s)
		w.startLocked(s)
	}
	for i := len(w.seats) - 1; i >= n; i-- {
		w.seats[i].stop()
		w.seats[i] = nil
		w.seats = w.seats[:i]
	}
}

// startLocked starts the worker of s. It must not be called when all workers have ended and somebody waits.
func (w *crew[K]) startLocked(s *seat[K]) {
	// A worker exists to reconcile one key at a time. It ends with the context of its seat, and Run waits for it.
	w.running.Go(func() {
		returned := false
		defer func() {
			if !returned {
				w.replace(s)
			}
		}()
		w.work(s.ctx, s)
		returned = true
	})
}

// wait returns when all workers have ended. None is started any more.
func (w *crew[K]) wait() { w.running.Wait() }
