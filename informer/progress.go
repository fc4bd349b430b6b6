package informer

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
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
		if !broadcast.IsClosed(s.Synced()) {
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
	version  Version                     // that the cache has, and its inline handlers were called for or are about to be
	settled  Version                     // the version at the end of the last step: every call for it that the step makes has returned
	since    time.Time                   // when the step that is in progress began; zero between steps
	received time.Time                   // when the source last yielded something
	opened   time.Time                   // when the open watch began; zero if none is open
	closed   time.Time                   // when the last watch of at least shortWatch ended
	lists    uint64                      // so far
	failure  error                       // of the last read; nil since the source has answered
	blind    bool                        // the watch that is open has failed to read, and has read nothing since
	failing  atomic.Bool                 // failure is set; written with mu held
	waiters  map[chan<- struct{}]Version // each is closed and removed when settled reaches its value

	observers observers[Version]
}

// at returns the version.
func (p *progress) at() Version {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// begin begins a step. received is true if the source has yielded something.
func (p *progress) begin(received bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	if received {
		p.received = p.since
	}
}

// end ends a step, and wakes the callers that wait for the version that it has reached.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
	if p.settled == p.version {
		return
	}
	p.settled = p.version
	for ch, wanted := range p.waiters {
		if wanted <= p.settled {
			close(ch)
			delete(p.waiters, ch)
		}
	}
}

// raise raises the version to v. It returns the observers that the caller must call, or nil if the version was already reached.
func (p *progress) raise(v Version) []*func(Version) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v <= p.version {
		return nil
	}
	p.version = v
	return p.observers.list()
}

// restart sets the version to 0, because a new history begins. It returns the observers that the caller must call.
func (p *progress) restart() []*func(Version) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version, p.settled = 0, 0
	return p.observers.list()
}

// wait returns nil when v is reached. If ended is closed first, it returns ErrEnded.
func (p *progress) wait(ctx context.Context, v Version, ended <-chan struct{}) error {
	reached := make(chan struct{})
	p.mu.Lock()
	if v <= p.settled {
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
	if v <= p.settled {
		return nil // reached in the meantime
	}
	delete(p.waiters, reached)
	return fmt.Errorf("at version %d, not %d: %w", p.settled, v, err)
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

// listed records that the source has listed.
func (p *progress) listed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	p.answeredLocked()
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
	last := p.received
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

// lastReceived returns when the source last yielded something.
func (p *progress) lastReceived() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}
