package leaderelect

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// sentry holds a mark of this process, and waits for that of the leader to be gone, by a [Sentinel], for as long as a
// run lasts. A nil sentry does nothing.
//
//  1. held is a mark that Hold has said to hold, in a call that has not returned.
//  2. gone gets a mark only if it was wanted, and Gone has returned nil for it.
type sentry struct {
	elector *Elector
	changed chan struct{} // capacity 1; who has changed held sends, the goroutine of Run receives, nobody closes
	gone    chan string   // capacity 1, the newest; follow sends, the goroutine of Run receives, nobody closes
	look    chan struct{} // capacity 1; who has changed wanted sends, follow receives, nobody closes

	cancel  context.CancelFunc
	tried   chan struct{} // closed when the first mark is held, or could not be
	stopped chan struct{} // closed when both goroutines have ended

	mu sync.Mutex
	// mu guards the following.
	trying string             // the mark of the present call of Hold; "" if there is none, or it is let go
	held   string             // "" if there is none
	end    context.CancelFunc // ends the present call of Hold; nil before the first
	wanted string             // whose end is of interest; "" is none
	told   bool               // that wanted is gone
	drop   context.CancelFunc // ends the present call of Gone; nil when there is none
}

// startSentry returns nil if there is no Sentinel. Its owner calls stop.
func (e *Elector) startSentry(ctx context.Context) *sentry {
	if e.cfg.Sentinel == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it goes on while the work drains
	s := &sentry{
		elector: e,
		changed: make(chan struct{}, 1), gone: make(chan string, 1), look: make(chan struct{}, 1),
		cancel: cancel, tried: make(chan struct{}), stopped: make(chan struct{}),
	}

	// These goroutines exist because Hold and Gone block. They end after stop, which waits for them by the last.
	var both sync.WaitGroup
	both.Go(func() { s.hold(ctx) })
	both.Go(func() { s.follow(ctx) })
	go func() {
		both.Wait()
		close(s.stopped)
	}()
	return s
}

// hold holds one mark after the other, until ctx ends.
func (s *sentry) hold(ctx context.Context) {
	e := s.elector
	tried := sync.OnceFunc(func() { close(s.tried) })
	for ctx.Err() == nil {
		mark := rand.Text()
		call, end := context.WithCancel(ctx)
		s.try(mark, end)
		err := guard(call, func(ctx context.Context) error {
			return e.cfg.Sentinel.Hold(ctx, mark, func() { s.hasTaken(mark); tried() })
		})
		lost := call.Err() == nil
		s.try("", end)
		tried()
		end()
		if lost {
			e.log.WarnContext(ctx, "leaderelect: holding a mark failed", "error", err)
			_ = wait.Sleep(ctx, e.pollPeriod())
		}
	}
}

// letGo ends the present mark, and has another one held. The work of this process has returned.
func (s *sentry) letGo() {
	if s == nil {
		return
	}
	s.mu.Lock()
	end, changed := s.end, s.tryLocked("")
	s.mu.Unlock()
	if changed {
		wake(s.changed)
	}
	if end != nil {
		end()
	}
}

// try notes which mark Hold is called for, until end; "" is none.
func (s *sentry) try(mark string, end context.CancelFunc) {
	s.mu.Lock()
	s.end = end
	changed := s.tryLocked(mark)
	s.mu.Unlock()
	if changed {
		wake(s.changed)
	}
}

// tryLocked notes which mark Hold is called for. Before that says so, none is held. It reports whether one was.
func (s *sentry) tryLocked(mark string) (was bool) {
	was = s.held != ""
	s.trying, s.held = mark, ""
	return was
}

// hasTaken notes that a mark is held, unless its call of Hold has returned.
func (s *sentry) hasTaken(mark string) {
	s.mu.Lock()
	if s.trying == mark {
		s.held = mark
	}
	s.mu.Unlock()
	wake(s.changed)
}

// follow tells when the mark that is wanted is gone, until ctx ends.
func (s *sentry) follow(ctx context.Context) {
	e := s.elector
	for ctx.Err() == nil {
		call, mark, cancel := s.next(ctx)
		if mark == "" {
			cancel()
			select {
			case <-ctx.Done():
			case <-s.look:
			}
			continue
		}
		err := guard(call, func(ctx context.Context) error { return e.cfg.Sentinel.Gone(ctx, mark) })
		dropped := call.Err() != nil
		cancel()
		switch {
		case dropped:
		case err == nil:
			s.tell(mark)
		default:
			e.log.WarnContext(ctx, "leaderelect: waiting for the end of a mark failed", "error", err)
			timer := time.NewTimer(e.pollPeriod())
			select {
			case <-ctx.Done():
			case <-s.look:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// next returns what to wait for, "" for nothing, and the context of the call that does.
func (s *sentry) next(ctx context.Context) (call context.Context, mark string, cancel context.CancelFunc) {
	call, cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = cancel
	if s.told {
		return call, "", cancel
	}
	return call, s.wanted, cancel
}

// tell tells that a mark is gone, once, if its end is still of interest.
func (s *sentry) tell(mark string) {
	s.mu.Lock()
	wanted := s.wanted == mark
	s.told = wanted
	s.mu.Unlock()
	if wanted {
		tell(s.gone, mark)
	}
}

// await returns when the first mark is held, or could not be, or ctx ends, or after timeout.
func (s *sentry) await(ctx context.Context, timeout time.Duration) {
	if s == nil {
		return
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.tried:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// want has the end of a mark told, and of no other; "" is none.
func (s *sentry) want(mark string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	same := s.wanted == mark
	if !same {
		s.wanted, s.told = mark, false
	}
	drop := s.drop
	s.mu.Unlock()
	if same {
		return
	}
	if drop != nil {
		drop()
	}
	wake(s.look)
}

// mark returns the mark that this process holds, or "".
func (s *sentry) mark() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// changes returns a channel that tells when mark may return another: nil, which never does, if there is no sentry.
func (s *sentry) changes() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.changed
}

// ends returns the channel of marks that are gone: nil, which never has any, if there is no sentry.
func (s *sentry) ends() <-chan string {
	if s == nil {
		return nil
	}
	return s.gone
}

// stop lets the mark go. It reports whether all calls have returned within timeout.
func (s *sentry) stop(timeout time.Duration) bool {
	if s == nil {
		return true
	}
	s.cancel()
	return closedWithin(s.stopped, timeout)
}
