package hint

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/wait"
)

// Watch follows one record with the watch of a store. A nil Watch has no news.
//
// A report arrives at once or never. So a receiver reads the record if there was no report for a while.
type Watch struct {
	warnings *lease.Warnings // of its goroutine
	news     chan lease.View // capacity 1, the newest; the goroutine of Watch sends, the receiver of News receives, never closed

	cancel  context.CancelFunc
	stopped chan struct{} // closed by the goroutine when it returns
	live    atomic.Bool   // the current call has reported something

	mu sync.Mutex
	// mu guards the following.
	again context.CancelFunc // ends the current call; nil before the first
}

// StartWatch calls watch until Stop, and again after a pause whenever it has returned. watch blocks, and calls report with
// each state of the record. It continues after ctx has ended. The caller calls Stop.
func StartWatch(ctx context.Context, log *slog.Logger, pause func() time.Duration,
	watch func(ctx context.Context, report func(lease.View)) error) *Watch {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the work may drain after ctx
	w := &Watch{
		warnings: lease.NewWarnings(log), news: make(chan lease.View, 1), cancel: cancel, stopped: make(chan struct{}),
	}

	// This goroutine exists because watch blocks. It ends after Stop, which waits for it.
	go func() {
		defer close(w.stopped)
		for ctx.Err() == nil {
			w.run(ctx, watch)
			_ = wait.Sleep(ctx, pause())
		}
	}()
	return w
}

// run makes one call of watch.
func (w *Watch) run(ctx context.Context, watch func(context.Context, func(lease.View)) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.again = cancel
	w.mu.Unlock()
	defer w.live.Store(false)

	err := lease.Guard(ctx, func(ctx context.Context) error {
		return watch(ctx, func(v lease.View) {
			w.live.Store(true)
			lease.Tell(w.news, v)
		})
	})
	if err != nil && ctx.Err() == nil {
		w.warnings.Warn(ctx, "leaderelect: watching the record failed", err)
	}
}

// News returns the channel of states of the record. It is nil for a nil Watch.
func (w *Watch) News() <-chan lease.View {
	if w == nil {
		return nil
	}
	return w.news
}

// Live reports whether the current call has reported the record and is not known to have ended.
func (w *Watch) Live() bool { return w != nil && w.live.Load() }

// Restart ends the current call, because it has missed a change.
func (w *Watch) Restart() {
	w.live.Store(false)
	w.mu.Lock()
	again := w.again
	w.mu.Unlock()
	if again != nil {
		again()
	}
}

// Stop ends the watch. It reports whether the watch has ended within timeout.
func (w *Watch) Stop(timeout time.Duration) bool {
	if w == nil {
		return true
	}
	w.cancel()
	return lease.ClosedWithin(w.stopped, timeout)
}
