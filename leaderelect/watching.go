package leaderelect

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// watching follows one record by a [Watcher], for as long as a run lasts. What it tells is a hint: it comes at once, but
// may be missing, so its owner reads the record when it has heard nothing for a while.
type watching struct {
	elector *Elector
	events  chan view // capacity 1, the newest; run sends, the goroutine of Run receives, nobody closes

	cancel  context.CancelFunc
	stopped chan struct{} // closed by run when it returns
	live    atomic.Bool   // the present watch has told something

	mu sync.Mutex
	// mu guards the following.
	again context.CancelFunc // ends the present watch; nil when there is none
}

// startWatching returns nil if the store cannot watch. Its owner calls stop.
func (e *Elector) startWatching(ctx context.Context) *watching {
	watcher, ok := e.cfg.Store.(Watcher)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it goes on while the work drains
	w := &watching{elector: e, events: make(chan view, 1), cancel: cancel, stopped: make(chan struct{})}

	// This goroutine exists because a watch blocks. It ends after stop, which waits for it.
	go func() {
		defer close(w.stopped)
		for ctx.Err() == nil {
			w.run(ctx, watcher)
			_ = wait.Sleep(ctx, e.pollPeriod())
		}
	}()
	return w
}

// run watches until the watch ends or is given up.
func (w *watching) run(ctx context.Context, watcher Watcher) {
	e := w.elector
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.again = cancel
	w.mu.Unlock()
	defer w.live.Store(false)

	err := guard(ctx, func(ctx context.Context) error {
		for entry, err := range iter.Seq2[Entry, error](watcher.Watch(ctx, e.cfg.Key)) {
			if err != nil || ctx.Err() != nil {
				return err
			}
			w.tell(entry)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		e.log.WarnContext(ctx, "leaderelect: watching the record failed", "error", err)
	}
}

// tell hands an event on. A leader that it shows to be replaced is stopped right here, for its goroutine may be busy
// with a call that hangs.
func (w *watching) tell(entry Entry) {
	e := w.elector
	v := view{at: time.Now()}
	if entry.Version != "" {
		v = viewOf(entry, v.at)
	}
	w.live.Store(true)
	if l := e.leadership(); l != nil && v.rec.Term > l.term {
		l.end(ErrLeaseTaken)
	}
	tell(w.events, v)
}

// restart gives the present watch up, because it has missed a change.
func (w *watching) restart() {
	w.live.Store(false)
	w.mu.Lock()
	again := w.again
	w.mu.Unlock()
	if again != nil {
		again()
	}
}

// stop ends the watch. It reports whether it has ended within timeout.
func (w *watching) stop(timeout time.Duration) bool {
	if w == nil {
		return true
	}
	w.cancel()
	return closedWithin(w.stopped, timeout)
}

// news returns the channel of events: nil, which never has any, if the store cannot watch.
func (w *watching) news() <-chan view {
	if w == nil {
		return nil
	}
	return w.events
}

// isLive reports whether changes are told, as far as is known.
func (w *watching) isLive() bool { return w != nil && w.live.Load() }
