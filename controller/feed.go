package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
)

// feed is something that adds keys to a controller while it runs: a watch, for example.
type feed interface {
	// Name says what it is, for people.
	Name() string

	// start begins to add keys. What it returns is synced when all that was there at the beginning has been added; it may be
	// nil. The context ends when start has to let go of what it waits for, before stop is called.
	start(ctx context.Context) (informer.Syncer, error)

	// stop returns when everything that start has started has ended, and no key will be added. It is called after each
	// start, also one that returned an error.
	stop()

	// cache returns the cache whose changes it tells, nil if there is none.
	cache() Cache

	// unmapped returns the number of objects that could not be mapped yet.
	unmapped() int
}

// addFeed adds a feed, before Run.
func (c *Controller[K]) addFeed(f feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		panic("controller: Watch called while Run is under way")
	}
	if c.connected {
		panic("controller: Watch called while the watches are connected")
	}
	c.feeds = append(c.feeds, f)
}

// attachment is what starting has made of the feeds: the handlers that it has added to informers.
type attachment struct {
	handlers []*informer.Registration
}

// startFeeds starts the feeds, and returns what to wait for. stop ends them, in the case of an error too.
func (c *Controller[K]) startFeeds(ctx context.Context) (syncers []informer.Syncer, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var started []feed
	stop = func() {
		c.attach(nil) // before the handlers are removed: so who waits for one knows why it has ended
		cancel()
		for _, f := range started {
			f.stop()
		}
	}
	syncers = slices.Clone(c.cfg.WaitFor)
	made := &attachment{}
	for _, f := range c.feeds {
		started = append(started, f)
		s, err := f.start(ctx)
		if err != nil {
			return nil, stop, fmt.Errorf("watch %s: %w", f.Name(), err)
		}
		if s != nil {
			syncers = append(syncers, s)
		}
		if handler, ok := s.(*informer.Registration); ok {
			made.handlers = append(made.handlers, handler)
		}
	}
	c.attach(made)
	return syncers, stop, nil
}

// attach notes that the feeds are started, or, if made is nil, that they are not.
func (c *Controller[K]) attach(made *attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached = made
	if made != nil && c.attaching != nil {
		close(c.attaching)
		c.attaching = nil
	}
}

// attachment returns the present attachment, or nil if there is none, and a channel that is closed when there is one.
func (c *Controller[K]) attachment() (*attachment, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == nil && c.attaching == nil {
		c.attaching = make(chan struct{})
	}
	return c.attached, c.attaching
}
