package informer

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Syncer becomes ready when it has caught up for the first time: an [Informer] when its cache holds the first list, a [Registration] when
// its handler has been called for every object that was in the cache when the handler joined.
type Syncer interface {
	// Name identifies the Syncer in errors.
	Name() string

	// Synced returns a channel that is closed when it is ready.
	Synced() <-chan struct{}
}

// WaitForSync waits until all of ss are ready, or ctx ends. Its error names those that are not ready, and wraps [context.Cause] of
// ctx. If all are ready, WaitForSync returns nil even if ctx has ended. If the Run of an informer ends before it is ready, WaitForSync waits
// until ctx ends. It panics if one of ss is nil.
func WaitForSync(ctx context.Context, ss ...Syncer) error {
	for i, s := range ss {
		if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			panic(fmt.Sprintf("informer: WaitForSync called with nil as argument %d", i+2))
		}
	}
	for _, s := range ss {
		select {
		case <-s.Synced():
		case <-ctx.Done():
			return notSynced(ctx, ss)
		}
	}
	return nil
}

// notSynced returns an error that names those of ss that are not ready, if any.
func notSynced(ctx context.Context, ss []Syncer) error {
	var names []string
	for _, s := range ss {
		if !isClosed(s.Synced()) {
			names = append(names, s.Name())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("informer: wait for sync of %s: %w", strings.Join(names, ", "), context.Cause(ctx))
}

// progress is the version of the cache, with the callers that wait for a version, and the times at which the source yielded something.
type progress struct {
	mu sync.Mutex
	// mu guards the following.
	version Version
	heard   time.Time
	opened  time.Time                   // when the open watch began; zero if none is open
	closed  time.Time                   // when the last watch of at least shortWatch ended
	lists   uint64                      // so far
	failure error                       // of the last read; nil since the source has answered
	blind   bool                        // the watch that is open has failed to read, and has read nothing since
	failing atomic.Bool                 // failure is set; written with mu held
	waiters map[chan<- struct{}]Version // each is closed and removed when version reaches its value

	followers []*follower // never changed in place
}

// follower is a function of OnVersion.
type follower struct{ tell func(Version) }

// at returns the version.
func (p *progress) at() Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// reach raises the version to v, and wakes the callers that wait for it. It returns the followers that the caller must call, or nil if the
// version was already reached.
func (p *progress) reach(v Version) []*follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v <= p.version {
		return nil
	}
	p.version = v
	for ch, wanted := range p.waiters {
		if wanted <= v {
			close(ch)
			delete(p.waiters, ch)
		}
	}
	return p.followers
}

// restart sets the version to 0, because a new history begins. It returns the followers that the caller must call.
func (p *progress) restart() []*follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = 0
	return p.followers
}

// follow adds a follower.
func (p *progress) follow(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers = slices.Concat(p.followers, []*follower{f})
}

// unfollow removes a follower, if it was added.
func (p *progress) unfollow(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers = without(p.followers, f)
}

// wait returns nil when v is reached. If ended is closed first, it returns ErrEnded.
func (p *progress) wait(ctx context.Context, v Version, ended <-chan struct{}) error {
	reached := make(chan struct{})
	p.mu.Lock()
	if v <= p.version {
		p.mu.Unlock()
		return nil
	}
	if p.waiters == nil {
		p.waiters = make(map[chan<- struct{}]Version)
	}
	p.waiters[reached] = v
	p.mu.Unlock()

	err := ErrEnded
	select {
	case <-reached:
		return nil
	case <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if v <= p.version {
		return nil // reached in the meantime
	}
	delete(p.waiters, reached)
	return fmt.Errorf("at version %d, not %d: %w", p.version, v, err)
}

// hear records that the source has yielded something now.
func (p *progress) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
}

// watching records that a watch has begun or ended.
func (p *progress) watching(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if open {
		p.opened = now
		return
	}
	if now.Sub(p.opened) >= shortWatch {
		p.closed = now
		if !p.blind {
			p.answeredLocked() // the failure was before the watch
		}
	}
	p.opened, p.blind = time.Time{}, false
}

// failed records that a list or a watch has failed. If the watch is still open, it has read nothing since.
func (p *progress) failed(err error, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure, p.blind = err, open
	p.failing.Store(true)
}

// answered records that the source has yielded something.
func (p *progress) answered() {
	if !p.failing.Load() { // nearly always
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answeredLocked()
}

func (p *progress) answeredLocked() {
	p.failure, p.blind = nil, false
	p.failing.Store(false)
}

// silent returns how long the source has been silent. A source that promises no bookmarks is not silent while a watch is open.
func (p *progress) silent(promises bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.heard
	if !promises && !last.IsZero() {
		if !p.opened.IsZero() {
			return 0
		}
		if p.closed.After(last) {
			last = p.closed
		}
	}
	return time.Since(last)
}

// lastHeard returns when the source last yielded something.
func (p *progress) lastHeard() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// ask is a call of [Registration.WaitIdle]. It takes two steps, so that it misses no object of the cache: at the end of a step, Run or
// Steps.Apply passes it to the listener. By then the listener has received the changes for everything in the cache. The listener answers it
// when the calls for all of these have returned.
type ask[K comparable, T any] struct {
	l    *listener[K, T]
	done chan struct{}
}

// waitIdle waits until the calls of l for everything in the cache have returned.
func (in *Informer[K, T]) waitIdle(ctx context.Context, l *listener[K, T]) error {
	select {
	case <-l.Synced(): // so l has joined
	case <-l.Gone():
		return ErrEnded
	case <-in.ended: // l never joined
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a := ask[K, T]{l, make(chan struct{})}
	in.mu.Lock()
	in.asks = append(in.asks, a)
	in.mu.Unlock()
	defer in.dropAsk(a)
	in.poke()
	var err error
	select {
	case <-a.done:
	case <-l.Gone():
		err = ErrEnded
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if isClosed(a.done) {
		return nil
	}
	return err
}

// passAsks passes the calls of WaitIdle to their listeners. Each listener has joined, or was removed.
func (in *Informer[K, T]) passAsks() {
	in.mu.Lock()
	asks := in.asks
	in.asks = nil
	in.mu.Unlock()
	for _, a := range asks {
		a.l.Ask(a.done)
	}
}

// dropAsk removes a, unless it was answered.
func (in *Informer[K, T]) dropAsk(a ask[K, T]) {
	in.mu.Lock()
	in.asks = slices.DeleteFunc(in.asks, func(other ask[K, T]) bool { return other == a })
	in.mu.Unlock()
	a.l.Withdraw(a.done)
}

// isClosed reports whether ch, on which nobody sends, is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
