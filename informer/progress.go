package informer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// progress is how far the cache is, and who waits for it to be further.
type progress struct {
	mu sync.Mutex
	// mu guards the following.
	version Version
	heard   time.Time
	opened  time.Time                   // when the present watch began; zero while there is none
	closed  time.Time                   // when the last watch ended that had lasted for shortWatch
	waiters map[chan<- struct{}]Version // each is closed, and forgotten, when version reaches its value

	followers []*follower // never changed in place
}

// follower is told of every version.
type follower struct{ tell func(Version) }

// at returns the version that was reached.
func (p *progress) at() Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// reach moves the version to v, unless it is there already, and wakes those who wait for it. It returns the followers, who
// are to be told.
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

// restart moves the version back to 0, because a new history begins. It returns the followers, who are to be told.
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

// unfollow removes a follower, if it is there.
func (p *progress) unfollow(f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers = without(p.followers, f)
}

// wait returns nil when v is reached. When ended is closed before, it returns ErrEnded.
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
		return nil // it was reached since
	}
	delete(p.waiters, reached)
	return fmt.Errorf("at version %d, not %d: %w", p.version, v, err)
}

// hear notes that the source has been heard now.
func (p *progress) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
}

// watching notes that a watch has begun, or that it has ended.
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
	}
	p.opened = time.Time{}
}

// silent returns for how long the source has been silent: it counts as heard while a watch is open, unless it promises
// bookmarks.
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

// lastHeard returns when the source was last heard.
func (p *progress) lastHeard() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}
