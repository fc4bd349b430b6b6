package leaderelect

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/wait"
)

// Sessions report that a process has ended, or has released its lease, before the lease expires: see [Config.Sessions]. At
// most one process holds a session, and the session ends with that process, as a connection to a database does. A process
// that is suspended still holds its session.
//
// A session is a hint: it does not decide who leads. If an implementation fails or hangs, followers wait for the lease. With
// Config.Fenced, a false report that a session has ended causes a needless change of leader, at most once per LeaseDuration
// for each elector. A record that was restored from a backup, with a raised term and a session that has ended, counts as one
// whose holder has ended.
//
// Both methods may be called concurrently. A call returns soon after its ctx has ended.
type Sessions interface {
	// Hold opens a session, calls held, and holds the session until ctx ends or the session is lost. The error says why it
	// returned. The name is random text that no other session ever has.
	Hold(ctx context.Context, name string, held func()) error

	// AwaitEnd blocks while a process holds the session, and then returns nil. It is called only with names of sessions that
	// were held.
	AwaitEnd(ctx context.Context, name string) error
}

// sessionHolder holds a session for this process, for the length of a run. If the session is lost, it opens another one after
// a pause. A nil sessionHolder holds none.
type sessionHolder struct {
	sessions Sessions
	log      *slog.Logger
	pause    func() time.Duration
	changed  chan struct{} // capacity 1; the code that changes held sends, the goroutine of Run receives, never closed

	cancel  context.CancelFunc
	tried   chan struct{} // closed when the first call of Hold has opened its session, or has returned
	stopped chan struct{} // closed by the goroutine when it returns

	mu sync.Mutex
	// mu guards the following.
	opening string             // the session of the current call of Hold; "" if there is none, or it must return
	held    string             // "" or opening, after Hold has opened it
	end     context.CancelFunc // ends the current call of Hold; nil before the first
}

// startSessionHolder returns a holder that also holds sessions after ctx has ended, because the work may drain. It is nil
// without Config.Sessions. The caller calls stop.
func (e *Elector) startSessionHolder(ctx context.Context) *sessionHolder {
	if e.cfg.Sessions == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &sessionHolder{
		sessions: e.cfg.Sessions, log: e.log, pause: e.pollPeriod, changed: make(chan struct{}, 1),
		cancel: cancel, tried: make(chan struct{}), stopped: make(chan struct{}),
	}

	// This goroutine exists because Hold blocks. It ends after stop, which waits for it.
	go h.run(ctx)
	return h
}

// await returns when the first session is held, when the first call of Hold has returned, when ctx ends, or after timeout.
func (h *sessionHolder) await(ctx context.Context, timeout time.Duration) {
	if h == nil {
		return
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-h.tried:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// name returns the session that is held, or "".
func (h *sessionHolder) name() string {
	if h == nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// changes returns a channel that has a value when name may return another result. It is nil for a nil sessionHolder.
func (h *sessionHolder) changes() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.changed
}

// replace ends the current session and opens another one. Followers that watch the first one then read the record.
func (h *sessionHolder) replace() {
	if h == nil {
		return
	}
	h.mu.Lock()
	end := h.end
	h.setLocked("")
	h.mu.Unlock()
	if end != nil {
		end()
	}
}

// stop ends the session. It reports whether Hold has returned within timeout.
func (h *sessionHolder) stop(timeout time.Duration) bool {
	if h == nil {
		return true
	}
	h.cancel()
	return lease.ClosedWithin(h.stopped, timeout)
}

// run is the goroutine.
func (h *sessionHolder) run(ctx context.Context) {
	defer close(h.stopped)
	tried := sync.OnceFunc(func() { close(h.tried) })
	for ctx.Err() == nil {
		session := rand.Text()
		call, end := context.WithCancel(ctx)
		h.mu.Lock()
		h.setLocked(session)
		h.end = end
		h.mu.Unlock()
		err := lease.Guard(call, func(ctx context.Context) error {
			return h.sessions.Hold(ctx, session, func() { h.opened(session); tried() })
		})
		lost := call.Err() == nil
		h.mu.Lock()
		h.setLocked("")
		h.mu.Unlock()
		tried()
		end()
		if lost {
			h.log.WarnContext(ctx, "holding a session failed", "error", err)
			_ = wait.Sleep(ctx, h.pause())
		}
	}
}

// setLocked notes for which session Hold is called. No session is held until Hold has opened it.
func (h *sessionHolder) setLocked(session string) {
	if h.held != "" {
		lease.Wake(h.changed)
	}
	h.opening, h.held = session, ""
}

// opened notes that Hold has opened a session, unless that call has returned or must return.
func (h *sessionHolder) opened(session string) {
	h.mu.Lock()
	if h.opening == session {
		h.held = session
	}
	h.mu.Unlock()
	lease.Wake(h.changed)
}

// sessionWatcher waits for the end of one session, that of the leader, for the length of a run. A nil sessionWatcher never
// reports an end.
type sessionWatcher struct {
	sessions Sessions
	log      *slog.Logger
	pause    func() time.Duration
	ended    chan string   // capacity 1, the newest; the goroutine sends, that of Run receives, never closed
	look     chan struct{} // capacity 1; watch sends, the goroutine receives, never closed

	cancel  context.CancelFunc
	stopped chan struct{} // closed by the goroutine when it returns

	mu sync.Mutex
	// mu guards the following.
	watched  string             // "" is none
	reported bool               // the end of watched was sent to ended
	end      context.CancelFunc // ends the current call of AwaitEnd; nil before the first
}

// startSessionWatcher returns a watcher that continues after ctx has ended. It is nil without Config.Sessions. The caller
// calls stop.
func (e *Elector) startSessionWatcher(ctx context.Context) *sessionWatcher {
	if e.cfg.Sessions == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &sessionWatcher{
		sessions: e.cfg.Sessions, log: e.log, pause: e.pollPeriod, ended: make(chan string, 1), look: make(chan struct{}, 1),
		cancel: cancel, stopped: make(chan struct{}),
	}

	// This goroutine exists because AwaitEnd blocks. It ends after stop, which waits for it.
	go w.run(ctx)
	return w
}

// watch waits for the end of the given session, and of no other. "" means none.
func (w *sessionWatcher) watch(session string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	same, end := w.watched == session, w.end
	if !same {
		w.watched, w.reported = session, false
	}
	w.mu.Unlock()
	if same {
		return
	}
	if end != nil {
		end()
	}
	lease.Wake(w.look)
}

// ends returns a channel that receives a watched session when it has ended. It is nil for a nil sessionWatcher.
func (w *sessionWatcher) ends() <-chan string {
	if w == nil {
		return nil
	}
	return w.ended
}

// stop ends the watch. It reports whether AwaitEnd has returned within timeout.
func (w *sessionWatcher) stop(timeout time.Duration) bool {
	if w == nil {
		return true
	}
	w.cancel()
	return lease.ClosedWithin(w.stopped, timeout)
}

// run is the goroutine.
func (w *sessionWatcher) run(ctx context.Context) {
	defer close(w.stopped)
	for ctx.Err() == nil {
		call, session, end := w.next(ctx)
		var pause <-chan time.Time
		stop := func() {}
		if session != "" {
			err := lease.Guard(call, func(ctx context.Context) error { return w.sessions.AwaitEnd(ctx, session) })
			switch {
			case call.Err() != nil: // another one is watched
			case err == nil:
				w.report(session)
			default:
				w.log.WarnContext(ctx, "waiting for the end of a session failed", "error", err)
				pause, stop = lease.Alarm(w.pause())
			}
		}
		end()
		select {
		case <-ctx.Done():
		case <-w.look:
		case <-pause:
		}
		stop()
	}
}

// next returns the session to wait for, "" for none, and the context of the call of AwaitEnd with the function that ends it.
func (w *sessionWatcher) next(ctx context.Context) (call context.Context, session string, end context.CancelFunc) {
	call, end = context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = end
	if w.reported {
		return call, "", end
	}
	return call, w.watched, end
}

// report reports the end of a session once, if it is still watched.
func (w *sessionWatcher) report(session string) {
	w.mu.Lock()
	w.reported = w.watched == session
	reported := w.reported
	w.mu.Unlock()
	if reported {
		lease.Replace(w.ended, session)
	}
}
