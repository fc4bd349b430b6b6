package controller

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/informer"
)

// attachment is what starting has made of the feeds: the handlers that it has added to informers.
type attachment struct {
	ctx      context.Context // of the feeds
	users    sync.WaitGroup  // who looks at what is present; Controller.mu guards Add
	handlers []*informer.Registration
}

// startFeeds starts the feeds, and returns what to wait for. stop ends them, in the case of an error too.
func (c *Controller[K]) startFeeds(ctx context.Context) (syncers []informer.Syncer, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var started []*input.Feed[K]
	made := &attachment{ctx: ctx}
	unfollow := func() {}
	stop = func() {
		c.attach(nil) // before the handlers are removed: so who waits for one knows why it has ended
		cancel()
		made.users.Wait() // before the feeds, whose mappings they use
		for _, f := range started {
			f.Stop()
		}
		unfollow()
	}
	for _, s := range c.Sources() {
		syncers = append(syncers, s)
	}
	if !c.cfg.StaleReads {
		unfollow = c.mirrors.Follow()
	}
	for _, f := range c.feeds {
		started = append(started, f)
		handler, err := f.Start(ctx)
		if err != nil {
			return nil, stop, fmt.Errorf("watch %s: %w", f.Source().Name(), err)
		}
		syncers = append(syncers, handler)
		made.handlers = append(made.handlers, handler)
	}
	c.attach(made)
	if c.cfg.Resync > 0 {
		// Waits for the turns of keys. It ends with ctx; stop waits for it.
		made.users.Go(func() { c.resync(ctx, syncers) })
	}
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

// isAttached reports whether the feeds are started.
func (c *Controller[K]) isAttached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached != nil
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
