package leaderelect

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/wait"
)

// Sessions tell that a process is gone, or has released, long before its lease has expired: see [Config.Sessions]. A
// session is held by one process at most and ends with that process, as a connection to a database or a lock on a file
// does. A process that is only stopped still holds its session.
//
// A session is a hint. Whether it is held says nothing about who leads, and an implementation that fails or hangs costs
// time alone. With Config.Fenced, one that reports the end of a session that is held makes leaders change for nothing, at
// most once in a LeaseDuration for each elector.
//
// Both methods may be called concurrently. A call returns soon after its ctx has ended.
type Sessions interface {
	// Hold opens a session, calls held, and holds the session until ctx ends or the session is lost. It returns why. The
	// name is a random text that no session has had before, and none will have again.
	Hold(ctx context.Context, name string, held func()) error

	// Gone returns nil when nobody holds the session. It blocks while somebody does. It is called only with the names of
	// sessions that have been held.
	Gone(ctx context.Context, name string) error
}

// presence holds a session of this process, and waits for the end of that of the leader, for as long as a run lasts. A nil
// presence does nothing.
//
//  1. held is a session that Hold has said to hold, in a call that has not returned.
//  2. gone gets a session only if it was wanted, and Gone has returned nil for it.
type presence struct {
	elector *Elector
	changed chan struct{} // capacity 1; who has changed held sends, the goroutine of Run receives, nobody closes
	gone    chan string   // capacity 1, the newest; follow sends, the goroutine of Run receives, nobody closes
	look    chan struct{} // capacity 1; who has changed wanted sends, follow receives, nobody closes

	cancel  context.CancelFunc
	tried   chan struct{} // closed when the first session is held, or could not be
	stopped chan struct{} // closed when both goroutines have ended

	mu sync.Mutex
	// mu guards the following.
	trying string             // the session of the present call of Hold; "" if there is none, or it is let go
	held   string             // "" if there is none
	end    context.CancelFunc // ends the present call of Hold; nil before the first
	wanted string             // whose end is of interest; "" is none
	told   bool               // that wanted is gone
	drop   context.CancelFunc // ends the present call of Gone; nil when there is none
}

// startPresence returns nil without Config.Sessions. Its owner calls stop.
func (e *Elector) startPresence(ctx context.Context) *presence {
	if e.cfg.Sessions == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it goes on while the work drains
	s := &presence{
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

// hold holds one session after the other, until ctx ends.
func (s *presence) hold(ctx context.Context) {
	e := s.elector
	tried := sync.OnceFunc(func() { close(s.tried) })
	for ctx.Err() == nil {
		session := rand.Text()
		call, end := context.WithCancel(ctx)
		s.try(session, end)
		err := lease.Guard(call, func(ctx context.Context) error {
			return e.cfg.Sessions.Hold(ctx, session, func() { s.hasTaken(session); tried() })
		})
		lost := call.Err() == nil
		s.try("", end)
		tried()
		end()
		if lost {
			e.log.WarnContext(ctx, "leaderelect: holding a session failed", "error", err)
			_ = wait.Sleep(ctx, e.pollPeriod())
		}
	}
}

// letGo ends the present session, and has another one held. The work of this process has returned.
func (s *presence) letGo() {
	if s == nil {
		return
	}
	s.mu.Lock()
	end, changed := s.end, s.tryLocked("")
	s.mu.Unlock()
	if changed {
		lease.Wake(s.changed)
	}
	if end != nil {
		end()
	}
}

// try notes which session Hold is called for, until end; "" is none.
func (s *presence) try(session string, end context.CancelFunc) {
	s.mu.Lock()
	s.end = end
	changed := s.tryLocked(session)
	s.mu.Unlock()
	if changed {
		lease.Wake(s.changed)
	}
}

// tryLocked notes which session Hold is called for. Before that says so, none is held. It reports whether one was.
func (s *presence) tryLocked(session string) (was bool) {
	was = s.held != ""
	s.trying, s.held = session, ""
	return was
}

// hasTaken notes that a session is held, unless its call of Hold has returned.
func (s *presence) hasTaken(session string) {
	s.mu.Lock()
	if s.trying == session {
		s.held = session
	}
	s.mu.Unlock()
	lease.Wake(s.changed)
}

// follow tells when the session that is wanted is gone, until ctx ends.
func (s *presence) follow(ctx context.Context) {
	e := s.elector
	for ctx.Err() == nil {
		call, session, cancel := s.next(ctx)
		if session == "" {
			cancel()
			select {
			case <-ctx.Done():
			case <-s.look:
			}
			continue
		}
		err := lease.Guard(call, func(ctx context.Context) error { return e.cfg.Sessions.Gone(ctx, session) })
		dropped := call.Err() != nil
		cancel()
		switch {
		case dropped:
		case err == nil:
			s.tell(session)
		default:
			e.log.WarnContext(ctx, "leaderelect: waiting for the end of a session failed", "error", err)
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
func (s *presence) next(ctx context.Context) (call context.Context, session string, cancel context.CancelFunc) {
	call, cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = cancel
	if s.told {
		return call, "", cancel
	}
	return call, s.wanted, cancel
}

// tell tells that a session is gone, once, if its end is still of interest.
func (s *presence) tell(session string) {
	s.mu.Lock()
	wanted := s.wanted == session
	s.told = wanted
	s.mu.Unlock()
	if wanted {
		lease.Tell(s.gone, session)
	}
}

// await returns when the first session is held, or could not be, or ctx ends, or after timeout.
func (s *presence) await(ctx context.Context, timeout time.Duration) {
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

// want has the end of a session told, and of no other; "" is none.
func (s *presence) want(session string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	same := s.wanted == session
	if !same {
		s.wanted, s.told = session, false
	}
	drop := s.drop
	s.mu.Unlock()
	if same {
		return
	}
	if drop != nil {
		drop()
	}
	lease.Wake(s.look)
}

// session returns the session that this process holds, or "".
func (s *presence) session() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// changes returns a channel that tells when session may return another: nil, which never does, if there is no presence.
func (s *presence) changes() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.changed
}

// ends returns the channel of sessions that are gone: nil, which never has any, if there is no presence.
func (s *presence) ends() <-chan string {
	if s == nil {
		return nil
	}
	return s.gone
}

// stop lets the session go. It reports whether all calls have returned within timeout.
func (s *presence) stop(timeout time.Duration) bool {
	if s == nil {
		return true
	}
	s.cancel()
	return lease.ClosedWithin(s.stopped, timeout)
}
