package hint

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/wait"
)

// Sessions is leaderelect.Sessions, which documents it.
type Sessions interface {
	Hold(ctx context.Context, name string, held func()) error
	Gone(ctx context.Context, name string) error
}

// Presence holds a session of this process, and waits for the end of the session of the leader. A nil Presence does neither.
//
//  1. held is a session that Hold has reported, in a call that has not returned.
//  2. gone gets a session only if it was wanted, and Gone has returned nil for it.
type Presence struct {
	sessions Sessions
	log      *slog.Logger
	pause    func() time.Duration
	changed  chan struct{} // capacity 1; the code that changes held sends, the receiver of Changes receives, never closed
	gone     chan string   // capacity 1, the newest; follow sends, the receiver of Ends receives, never closed
	look     chan struct{} // capacity 1; the code that changes wanted sends, follow receives, never closed

	cancel  context.CancelFunc
	tried   chan struct{} // closed when the first call of Hold has reported its session, or has returned
	stopped chan struct{} // closed when both goroutines have ended

	mu sync.Mutex
	// mu guards the following.
	trying string             // the session of the current call of Hold; "" if there is none, or it is let go
	held   string             // "" if there is none
	end    context.CancelFunc // ends the current call of Hold; nil before the first
	wanted string             // the session whose end is of interest; "" is none
	told   bool               // the end of wanted was sent to gone
	drop   context.CancelFunc // ends the current call of Gone; nil before the first
}

// StartPresence holds a session until Stop, and another one after a pause if it is lost. It continues after ctx has
// ended. The caller calls Stop.
func StartPresence(ctx context.Context, sessions Sessions, log *slog.Logger, pause func() time.Duration) *Presence {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the work may drain after ctx
	p := &Presence{
		sessions: sessions, log: log, pause: pause,
		changed: make(chan struct{}, 1), gone: make(chan string, 1), look: make(chan struct{}, 1),
		cancel: cancel, tried: make(chan struct{}), stopped: make(chan struct{}),
	}

	// These goroutines exist because Hold and Gone block. They end after Stop, which waits for them by the last.
	var both sync.WaitGroup
	both.Go(func() { p.hold(ctx) })
	both.Go(func() { p.follow(ctx) })
	go func() {
		both.Wait()
		close(p.stopped)
	}()
	return p
}

// Await returns when the first session is held, when the first call of Hold has returned, when ctx ends, or after timeout.
func (p *Presence) Await(ctx context.Context, timeout time.Duration) {
	if p == nil {
		return
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.tried:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Session returns the session that this process holds, or "".
func (p *Presence) Session() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Changes returns a channel that has a value when Session may have changed. It is nil for a nil Presence.
func (p *Presence) Changes() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.changed
}

// Renew ends the current session and opens another one. Followers that wait for the end of the first read the record then.
func (p *Presence) Renew() {
	if p == nil {
		return
	}
	p.mu.Lock()
	end, changed := p.end, p.tryLocked("")
	p.mu.Unlock()
	if changed {
		lease.Wake(p.changed)
	}
	if end != nil {
		end()
	}
}

// Want waits for the end of the given session, and of no other. "" means none.
func (p *Presence) Want(session string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	same := p.wanted == session
	if !same {
		p.wanted, p.told = session, false
	}
	drop := p.drop
	p.mu.Unlock()
	if same {
		return
	}
	if drop != nil {
		drop()
	}
	lease.Wake(p.look)
}

// Ends returns the channel of wanted sessions that have ended. It is nil for a nil Presence.
func (p *Presence) Ends() <-chan string {
	if p == nil {
		return nil
	}
	return p.gone
}

// Stop ends the session. It reports whether all calls of Sessions have returned within timeout.
func (p *Presence) Stop(timeout time.Duration) bool {
	if p == nil {
		return true
	}
	p.cancel()
	return lease.ClosedWithin(p.stopped, timeout)
}

// hold holds one session after the other, until ctx ends.
func (p *Presence) hold(ctx context.Context) {
	tried := sync.OnceFunc(func() { close(p.tried) })
	for ctx.Err() == nil {
		session := rand.Text()
		call, end := context.WithCancel(ctx)
		p.try(session, end)
		err := lease.Guard(call, func(ctx context.Context) error {
			return p.sessions.Hold(ctx, session, func() { p.hasTaken(session); tried() })
		})
		lost := call.Err() == nil
		p.try("", end)
		tried()
		end()
		if lost {
			p.log.WarnContext(ctx, "leaderelect: holding a session failed", "error", err)
			_ = wait.Sleep(ctx, p.pause())
		}
	}
}

// try notes the session for which Hold is called, and what ends that call; "" is none.
func (p *Presence) try(session string, end context.CancelFunc) {
	p.mu.Lock()
	p.end = end
	changed := p.tryLocked(session)
	p.mu.Unlock()
	if changed {
		lease.Wake(p.changed)
	}
}

// tryLocked notes the session for which Hold is called. No session is held until Hold reports it. tryLocked reports whether one was held
// before.
func (p *Presence) tryLocked(session string) (was bool) {
	was = p.held != ""
	p.trying, p.held = session, ""
	return was
}

// hasTaken notes that a session is held, unless its call of Hold has returned or has been told to.
func (p *Presence) hasTaken(session string) {
	p.mu.Lock()
	if p.trying == session {
		p.held = session
	}
	p.mu.Unlock()
	lease.Wake(p.changed)
}

// follow waits for the end of the session that is wanted, until ctx ends.
func (p *Presence) follow(ctx context.Context) {
	for ctx.Err() == nil {
		call, session, cancel := p.next(ctx)
		if session == "" {
			cancel()
			select {
			case <-ctx.Done():
			case <-p.look:
			}
			continue
		}
		err := lease.Guard(call, func(ctx context.Context) error { return p.sessions.Gone(ctx, session) })
		dropped := call.Err() != nil
		cancel()
		switch {
		case dropped:
		case err == nil:
			p.tell(session)
		default:
			p.log.WarnContext(ctx, "leaderelect: waiting for the end of a session failed", "error", err)
			timer := time.NewTimer(p.pause())
			select {
			case <-ctx.Done():
			case <-p.look:
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// next returns the session to wait for, "" for none, and the context of the call of Gone.
func (p *Presence) next(ctx context.Context) (call context.Context, session string, cancel context.CancelFunc) {
	call, cancel = context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = cancel
	if p.told {
		return call, "", cancel
	}
	return call, p.wanted, cancel
}

// tell reports the end of a session once, if it is still wanted.
func (p *Presence) tell(session string) {
	p.mu.Lock()
	wanted := p.wanted == session
	p.told = wanted
	p.mu.Unlock()
	if wanted {
		lease.Tell(p.gone, session)
	}
}
