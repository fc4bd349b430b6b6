package input

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
)

// Feeds are the inputs of one controller, and its informers. Start starts them together; a stop ends them together. All methods are safe
// for concurrent use, but call Start again only after stop has returned.
type Feeds[K comparable] struct {
	feeds     []*Feed[K]
	informers []Informer

	mu sync.Mutex
	// mu guards the following. Invariant: attaching is nil while attached is not.
	attached  *attachment   // nil while the feeds are not started
	attaching chan struct{} // closed, and dropped, when attached is set; nil without a waiter
}

// attachment is the state of the feeds during one Start.
type attachment struct {
	ctx      context.Context
	users    sync.WaitGroup // of what is present; Feeds.mu guards Add
	handlers []*informer.Registration
	syncers  []informer.Syncer // of all informers and handlers
}

// NewFeeds returns Feeds that are not started. Their informers are those of feeds, and others, each once.
func NewFeeds[K comparable, S Informer](feeds []*Feed[K], others []S) *Feeds[K] {
	fs := &Feeds[K]{feeds: feeds}
	add := func(in Informer) {
		if !reflect.TypeOf(in).Comparable() || !slices.Contains(fs.informers, in) {
			fs.informers = append(fs.informers, in)
		}
	}
	for _, f := range feeds {
		add(f.Informer())
	}
	for _, in := range others {
		add(in)
	}
	return fs
}

// Informers returns the informers. The caller must not change the slice.
func (fs *Feeds[K]) Informers() []Informer { return fs.informers }

// Start starts the feeds, and returns what to wait for before their keys can be reconciled. If beside is not nil, Start calls it in a
// goroutine; it must return when its context ends. stop ends all of this. If Start panics or returns an error, which names the informer
// that has ended, it leaves nothing behind, and stop is nil.
func (fs *Feeds[K]) Start(
	ctx context.Context, beside func(ctx context.Context, syncers []informer.Syncer),
) (syncers []informer.Syncer, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	made := &attachment{ctx: ctx}
	started := 0
	end := func() {
		fs.attach(nil) // before the handlers are removed, so that a waiter for a handler knows why it has ended
		cancel()
		made.users.Wait() // before the feeds, whose mappings they use
		for _, f := range fs.feeds[:started] {
			f.Stop()
		}
	}
	ok := false
	defer func() {
		if !ok { // an informer has ended, or a function that makes a handler has panicked
			end()
		}
	}()
	for _, in := range fs.informers {
		made.syncers = append(made.syncers, in)
	}
	for _, f := range fs.feeds {
		started++
		handler, err := f.Start(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("watch %s: %w", f.Informer().Name(), err)
		}
		made.syncers = append(made.syncers, handler)
		made.handlers = append(made.handlers, handler)
	}
	fs.attach(made)
	if beside != nil {
		// It ends with ctx; stop waits for it.
		made.users.Go(func() { beside(ctx, made.syncers) })
	}
	ok = true
	return made.syncers, end, nil
}

// attach records that the feeds are started, or, if made is nil, that they are not.
func (fs *Feeds[K]) attach(made *attachment) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.attached = made
	if made != nil && fs.attaching != nil {
		close(fs.attaching)
		fs.attaching = nil
	}
}

// attachment returns the current attachment, or nil if there is none, and a channel that is closed when there is one.
func (fs *Feeds[K]) attachment() (*attachment, <-chan struct{}) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.attached == nil && fs.attaching == nil {
		fs.attaching = make(chan struct{})
	}
	return fs.attached, fs.attaching
}

// Started reports whether the feeds are started.
func (fs *Feeds[K]) Started() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.attached != nil
}

// Synced reports whether the feeds are started, and all informers and handlers have synced.
func (fs *Feeds[K]) Synced() bool {
	fs.mu.Lock()
	made := fs.attached
	fs.mu.Unlock()
	return made != nil && !slices.ContainsFunc(made.syncers, func(s informer.Syncer) bool {
		select {
		case <-s.Synced():
			return false
		default:
			return true
		}
	})
}

// Present adds the keys of all present objects that count. It returns early when the feeds are stopped, and adds no key if they are not
// started. A stop waits for it.
func (fs *Feeds[K]) Present(add func(K)) {
	made := fs.use()
	if made == nil {
		return
	}
	defer made.users.Done()
	for _, f := range fs.feeds {
		f.Present(made.ctx, add)
	}
}

// use returns the current attachment with one more user, or nil if there is none.
func (fs *Feeds[K]) use() *attachment {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.attached != nil {
		fs.attached.users.Add(1)
	}
	return fs.attached
}

// WaitMapped waits until everything that the caches hold now has been mapped. If the feeds are not started, or are stopped in the meantime,
// it waits for the next Start. Without a feed it returns at once.
func (fs *Feeds[K]) WaitMapped(ctx context.Context) error {
	for len(fs.feeds) > 0 {
		made, attaching := fs.attachment()
		if made == nil {
			select {
			case <-attaching:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		err := made.wait(ctx)
		if err == nil {
			return nil
		}
		if now, _ := fs.attachment(); now == made || ctx.Err() != nil {
			return err
		}
		// The handler was removed because the feeds were stopped.
	}
	return nil
}

// wait waits until the handlers have handled everything that the caches hold.
func (made *attachment) wait(ctx context.Context) error {
	for _, handler := range made.handlers {
		if err := handler.WaitIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Unmapped returns the number of objects that could not be mapped yet.
func (fs *Feeds[K]) Unmapped() (n int) {
	for _, f := range fs.feeds {
		n += f.Unmapped()
	}
	return n
}

// CheckInvariants returns an error if an invariant at the fields does not hold. It is for tests.
func (fs *Feeds[K]) CheckInvariants() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.attached != nil && fs.attaching != nil {
		return errors.New("input: a waiter was not told that the feeds are started")
	}
	return nil
}
