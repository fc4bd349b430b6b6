package leaderelect

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/wait"
)

// Watcher is a [LeaseStore] that reports changes. Followers that watch need not poll: they take over milliseconds after a
// release. A leader that was replaced stops at once. Nothing else depends on a watch: an event that is late, lost, or
// repeated can delay a change of leader, but cannot cause one.
type Watcher interface {
	// Watch yields the current record, and then the record after each change, until ctx ends or the consumer leaves its
	// loop.
	//
	//   - A missing record is an Entry that has only a key.
	//   - Intermediate states may be left out, the newest may not. States come in the order in which they were written.
	//     None is older than a record that the same store has returned or acknowledged before the call.
	//   - The same state may be yielded again.
	//   - If the watch fails, it yields its error last, with a zero Entry. It may also end without an error. The caller may
	//     watch again in both cases. After ctx has ended, the watch ends soon, with or without an error.
	Watch(ctx context.Context, key string) iter.Seq2[Entry, error]
}

// recordWatch follows the record by the watch of the store, for the length of a run. If the watch ends, it watches again after
// a pause. An event arrives at once or never, so a receiver reads the record if there was none for a while. A nil recordWatch
// reports nothing.
type recordWatch struct {
	elector  *Elector
	watcher  Watcher
	warnings *lease.Warnings // of the goroutine
	views    chan lease.View // capacity 1, the newest; the goroutine sends, that of Run receives, never closed

	cancel  context.CancelFunc
	stopped chan struct{} // closed by the goroutine when it returns
	active  atomic.Bool   // the current watch has reported something

	mu sync.Mutex
	// mu guards the following.
	end context.CancelFunc // ends the current watch; nil before the first
}

// startWatch returns a watch that continues after ctx has ended, because the work may drain. It is nil if the store cannot
// watch. The caller calls stop.
func (e *Elector) startWatch(ctx context.Context) *recordWatch {
	watcher, ok := e.cfg.Store.(Watcher)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &recordWatch{
		elector: e, watcher: watcher, warnings: lease.NewWarnings(e.log), views: make(chan lease.View, 1),
		cancel: cancel, stopped: make(chan struct{}),
	}

	// This goroutine exists because a watch blocks. It ends after stop, which waits for it.
	go func() {
		defer close(w.stopped)
		for ctx.Err() == nil {
			w.run(ctx)
			_ = wait.Sleep(ctx, e.pollPeriod())
		}
	}()
	return w
}

// run watches until the watch ends.
func (w *recordWatch) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.end = cancel
	w.mu.Unlock()
	defer w.active.Store(false)

	err := lease.Guard(ctx, func(ctx context.Context) error {
		for entry, err := range iter.Seq2[Entry, error](w.watcher.Watch(ctx, w.elector.cfg.Key)) {
			if err != nil || ctx.Err() != nil {
				return err
			}
			w.receive(entry)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		w.warnings.Warn(ctx, "watching the record failed", err)
	}
}

// receive handles an event of the watch.
func (w *recordWatch) receive(entry Entry) {
	v := lease.View{At: time.Now()}
	if entry.Version != "" {
		v = viewOf(entry, v.At)
	}
	// The leader is stopped right here, because the goroutine of Run may be in a call that hangs.
	if l := w.elector.leadership(); l != nil && v.Record.Term > l.term {
		l.end(ErrLeaseTaken)
	}
	w.active.Store(true)
	lease.Replace(w.views, v)
}

// events returns the channel of states of the record. It is nil for a nil recordWatch.
func (w *recordWatch) events() <-chan lease.View {
	if w == nil {
		return nil
	}
	return w.views
}

// works reports whether the current watch has reported the record and has not failed, as far as this process can see.
func (w *recordWatch) works() bool { return w != nil && w.active.Load() }

// restart ends the current watch, because it has missed a change. The next one begins after a pause.
func (w *recordWatch) restart() {
	w.mu.Lock()
	end := w.end
	w.mu.Unlock()
	if end != nil {
		end()
	}
}

// stop ends the watch. It reports whether it has ended within timeout.
func (w *recordWatch) stop(timeout time.Duration) bool {
	if w == nil {
		return true
	}
	w.cancel()
	return lease.ClosedWithin(w.stopped, timeout)
}
