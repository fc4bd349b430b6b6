package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// crew is the workers of one Run. The fields are guarded by Controller.mu, but running.
type crew[K comparable] struct {
	ctx     context.Context         // ends the work, and the workers
	stop    context.CancelCauseFunc // ends ctx
	leads   *leaderelect.Leadership // without it no reconcile may begin; nil if ctx belongs to none
	work    func(s *seat[K])
	began   time.Time
	want    int
	closed  bool       // no worker may begin any more
	seats   []*seat[K] // of the workers that run, each at its place
	running sync.WaitGroup
}

// seat is the place of one worker.
type seat[K comparable] struct {
	crew      *crew[K]
	place     int             // its index in crew.seats; guarded by Controller.mu
	take      context.Context // ends when the worker has to ask whether it is to go on; written by the worker with Controller.mu held
	interrupt context.CancelFunc
	goroutine atomic.Int64           // the number of the worker's
	current   atomic.Pointer[try[K]] // what the worker does; nil for nothing
	tries     []try[K]               // not used yet; used by the worker only
}

// triesAtOnce is how many tries a worker allocates together. A reconcile whose context somebody keeps keeps them all.
const triesAtOnce = 16

// newTry returns a try. Each is used once, since its context may outlive the reconcile.
func (s *seat[K]) newTry() *try[K] {
	if s == nil {
		return new(try[K])
	}
	if len(s.tries) == 0 {
		s.tries = make([]try[K], triesAtOnce)
	}
	t := &s.tries[0]
	s.tries = s.tries[1:]
	return t
}

// resizeLocked makes it n workers. Those that are too many end when they have done what they do.
func (w *crew[K]) resizeLocked(n int) {
	if w.closed {
		return
	}
	w.want = n
	for len(w.seats) < n && w.ctx.Err() == nil {
		s := &seat[K]{crew: w, place: len(w.seats)}
		s.take, s.interrupt = context.WithCancel(w.ctx)
		w.seats = append(w.seats, s)
		w.startLocked(s)
	}
	if len(w.seats) > n {
		for _, s := range w.seats {
			s.interrupt()
		}
	}
}

// startLocked starts the worker of s. When there may be somebody who waits, a worker has to run.
func (w *crew[K]) startLocked(s *seat[K]) {
	// A worker exists to reconcile one key at a time. It ends when it is not wanted, and Run waits for it.
	w.running.Go(func() { w.work(s) })
}

// stayLocked tells the worker of s, which was interrupted, whether it is to go on, and if it is not takes its seat away.
func (w *crew[K]) stayLocked(s *seat[K]) bool {
	if w.ctx.Err() == nil && len(w.seats) <= w.want {
		s.take, s.interrupt = context.WithCancel(w.ctx)
		return true
	}
	last := w.seats[len(w.seats)-1]
	w.seats[s.place], last.place = last, s.place
	w.seats[len(w.seats)-1] = nil
	w.seats = w.seats[:len(w.seats)-1]
	return false
}
