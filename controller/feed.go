package controller

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

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

// Source fills a cache, and continues until its context ends. An *informer.Informer is a source.
//
// If a source has a method Check() error, the manager calls it.
type Source interface {
	informer.Syncer

	// Run blocks until ctx ends. A manager calls it once, unless the source fails and the manager starts it again.
	Run(ctx context.Context) error
}

// Sources returns the informers of the inputs of c, and Config.Reads, each once. A manager runs them. Without a manager, the
// program calls Run of each: Run of c does not, because it is called once for each term, an informer runs once, and two
// controllers may watch one informer.
func (c *Controller[K]) Sources() []Source {
	sources := make([]Source, 0, len(c.feeds)+len(c.cfg.Reads))
	add := func(s Source) {
		if !reflect.TypeOf(s).Comparable() || !slices.Contains(sources, s) {
			sources = append(sources, s)
		}
	}
	for _, f := range c.feeds {
		add(f.Source())
	}
	for _, s := range c.cfg.Reads {
		add(s)
	}
	return sources
}

// waitForSync waits until every one of syncers has synced, for at most limit. The end of ctx is no error.
func waitForSync(ctx context.Context, limit time.Duration, syncers []informer.Syncer) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, after(errSyncTimeout, limit))
	defer cancel()
	err := informer.WaitForSync(limited, syncers...)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if silent := unheard(syncers); len(silent) > 0 {
		return fmt.Errorf("%w; nothing was heard from the source of %s: without a manager, call Run of the informer",
			err, strings.Join(silent, ", "))
	}
	return err
}

// unheard returns the names of those of syncers that have never heard from their source.
func unheard(syncers []informer.Syncer) (names []string) {
	for _, s := range syncers {
		if s, ok := s.(interface {
			Name() string
			LastHeard() time.Time
		}); ok && s.LastHeard().IsZero() {
			names = append(names, s.Name())
		}
	}
	return names
}

// isClosed tells whether c, on which nothing is sent, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// turn is a key, and when its resync is due, counted from the beginning of the period.
type turn[K comparable] struct {
	key   K
	after time.Duration
}

// resync adds each key again once in each Config.Resync, until ctx ends. The turn of a key is a random moment of the period, the
// same in all periods. So the keys are spread, and replicas that started together do not resync together.
func (c *Controller[K]) resync(ctx context.Context, syncers []informer.Syncer) {
	if informer.WaitForSync(ctx, syncers...) != nil {
		return
	}
	began := time.Now()
	for {
		for _, t := range c.turns(ctx) {
			if !sleepUntil(ctx, began.Add(t.after)) {
				return
			}
			c.probe(t.key)
		}
		began = began.Add(c.cfg.Resync)
		if !sleepUntil(ctx, began) {
			return
		}
		if late := time.Now(); late.Sub(began) > c.cfg.Resync { // the process was suspended
			began = late
		}
	}
}

// turns returns the keys that the watches know now, and those that are parked, in the order of their turns.
func (c *Controller[K]) turns(ctx context.Context) []turn[K] {
	known := make(map[K]struct{})
	for _, f := range c.feeds {
		f.Present(ctx, func(key K) { known[key] = struct{}{} })
	}
	for _, key := range c.queue.Parked() {
		known[key] = struct{}{}
	}
	turns := make([]turn[K], 0, len(known))
	for key := range known {
		part, _ := bits.Mul64(maphash.Comparable(c.seed, key), uint64(c.cfg.Resync))
		turns = append(turns, turn[K]{key, time.Duration(part)})
	}
	slices.SortFunc(turns, func(a, b turn[K]) int { return cmp.Compare(a.after, b.after) })
	return turns
}

// probe adds key once more. If it is parked, it gets one attempt, not a whole budget: unless news comes before the attempt has
// failed, it is parked again then.
func (c *Controller[K]) probe(key K) {
	c.streaks.SetProbe(key, true) // before it can be taken
	if !c.queue.DropParked(key) {
		c.streaks.SetProbe(key, false)
	}
	opts := AddOptions{Priority: c.cfg.Background}
	if c.cfg.Reasons {
		opts.Reason = "resync"
	}
	c.add(key, opts, false)
}

// sleepUntil waits until t. It returns false if ctx ends before.
func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
