package informer

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
)

// Informer mirrors a source into a cache and calls handlers for what changes. See the package documentation for what it
// guarantees. It runs once: [Informer.Run] starts and ends it. [Informer.Steps] drives it step by step, in the place of Run.
//
// Its methods may be called by several goroutines at once.
type Informer[K comparable, T any] struct {
	cfg       Config
	key       cache.KeyFunc[K, T]
	indexer   *cache.Indexer[K, T] // written by Run only
	feed      feed[K, T]
	reflector *reflector[K, T]
	progress  progress
	promise   time.Duration // the BookmarkPeriod of the source, or 0

	synced chan struct{} // closed by Run when the cache holds the first list
	ended  chan struct{} // closed by Run when it returns
	wake   chan struct{} // holds a token when Run has something to do; sent by the reflector, AddHandler and Run

	// Used by Run's goroutine only.
	applier     applier[K, T]
	spare       []input[K, T]
	scans       []*scan[K, T]
	piece       int  // the number of objects that a scan tells of at once
	rescheduled bool // the time of the next resync may have changed

	mu sync.Mutex
	// mu guards the following.
	running   bool // until the end: an informer that has ended still counts as running
	added     int  // handlers so far
	joining   []*listener[K, T]
	listeners []*listener[K, T] // joined; never changed in place
	asks      []*ask[K, T]      // of WaitIdle, for the next step to pass on
}

// New returns an informer of src, whose objects have the key that key returns. It does nothing before Run. The error names
// each field of cfg that is out of its bounds. New panics if src or key is nil.
func New[K comparable, T any](src ListWatcher[T], key cache.KeyFunc[K, T], cfg Config) (*Informer[K, T], error) {
	if src == nil || key == nil {
		panic("informer: New needs a source and a key function")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("informer: new informer: %w", err)
	}
	in := &Informer[K, T]{
		cfg:     withDefaults[T](cfg),
		key:     key,
		indexer: cache.NewIndexer(key),
		promise: bookmarkPeriod(src),
		piece:   pieceSize,
		synced:  make(chan struct{}),
		ended:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	in.feed.wake, in.feed.room = in.poke, make(chan struct{}, 1)
	in.reflector = &reflector[K, T]{src: src, pages: pagesOf(src), key: key, feed: &in.feed, told: &in.progress, cfg: in.cfg}
	in.applier = applier[K, T]{
		name: in.cfg.Name, indexer: in.indexer, equal: equalOf(src), onError: in.cfg.OnError, seed: maphash.MakeSeed(),
	}
	return in, nil
}

// Name returns the name from the Config.
func (in *Informer[K, T]) Name() string { return in.cfg.Name }

// Indexer returns the cache: it may be read at any time, and only the informer may write to it. Indexes may be added to
// it at any time.
func (in *Informer[K, T]) Indexer() *cache.Indexer[K, T] { return in.indexer }

// Get returns the object of the cache with the given key.
func (in *Informer[K, T]) Get(key K) (T, bool) { return in.indexer.Get(key) }

// Key returns the key of obj, as the function given to New does.
func (in *Informer[K, T]) Key(obj T) K { return in.key(obj) }

// Run mirrors the source until ctx ends, and then returns nil, when every goroutine that it has started has ended. A
// callback that runs is waited for; what still waits for a handler is forgotten.
//
// A second Run returns an error at once: [ErrRunning] while the first, or [Informer.Steps], goes on, [ErrEnded] after it. Run
// panics if New has not made the informer.
func (in *Informer[K, T]) Run(ctx context.Context) error {
	if in.indexer == nil {
		panic("informer: Run called on an Informer that New has not made")
	}
	if err := in.begin(); err != nil {
		return fmt.Errorf("informer: run %s: %w", in.cfg.Name, err)
	}
	// Deferred, so that a panic of OnError, which is not captured, leaves nothing behind.
	defer in.end()
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// The source blocks the one that reads it. It ends with ctx; goroutines.Wait waits for it.
	var reflect func()
	reflect = func() { in.reflector.run(ctx, func() { goroutines.Go(reflect) }) }
	goroutines.Go(reflect)

	start := func(l *listener[K, T]) {
		// A handler may block, and shall block no one else. It ends with ctx, or when the handler is removed;
		// goroutines.Wait waits for it, and so does Remove.
		goroutines.Go(func() { l.run(ctx) })
	}

	defer in.stopScans()
	due := newTimers(in)
	defer due.stop()
	for ctx.Err() == nil {
		due.set()
		select {
		case <-in.wake:
			in.step(in.feed.take(in.spare), start)
		case <-due.again:
			due.relist()
		case now := <-due.resync.C:
			in.resync(now)
		case <-ctx.Done():
		}
	}
	return nil
}

// AddHandler adds a handler, at any time before Run ends. The handler joins when the cache holds the first list, or, if it
// does already, before the next change is applied. It is given every object that is there then, with inInitialList, and
// every change after that. So an object that is created after AddHandler has returned, on an informer that has synced, is
// never told with inInitialList, and a change after that is always told as one.
//
// It does not matter how many handlers there are or what they do. If Run is under way, the first callback may come before
// AddHandler has returned: give the Registration to a callback that uses it by a channel, for example.
//
// After Run has ended it returns [ErrEnded].
func (in *Informer[K, T]) AddHandler(h Handler[K, T]) (*Registration, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if isClosed(in.ended) {
		return nil, fmt.Errorf("informer: add handler to %s: %w", in.cfg.Name, ErrEnded)
	}
	in.added++
	l := newListener(in, fmt.Sprintf("%s handler %d", in.cfg.Name, in.added), h)
	in.joining = append(in.joining, l)
	in.poke()
	l.reg = &Registration{
		name: l.name, synced: l.synced, listener: l,
		remove: func() <-chan struct{} { return in.remove(l) },
		idle:   func(ctx context.Context) error { return in.waitIdle(ctx, l) },
	}
	return l.reg, nil
}

// Synced returns a channel that is closed when the cache holds the first list. It is never closed if Run ends before.
func (in *Informer[K, T]) Synced() <-chan struct{} { return in.synced }

// HasSynced reports whether Synced is closed.
func (in *Informer[K, T]) HasSynced() bool { return isClosed(in.synced) }

// Version returns the version of the source up to which every change has been applied to the cache, and passed on to the
// handlers. It is 0 before the first list. It grows until a new history begins, after [Informer.Reset]: then it is 0 again,
// and grows with the versions of that history.
func (in *Informer[K, T]) Version() Version { return in.progress.at() }

// WaitForVersion waits until Version is at least v. It returns an error that wraps the cause of ctx when that ends
// before, or [ErrEnded] when Run does.
func (in *Informer[K, T]) WaitForVersion(ctx context.Context, v Version) error {
	if err := in.progress.wait(ctx, v, in.ended); err != nil {
		return fmt.Errorf("informer: wait for version of %s: %w", in.cfg.Name, err)
	}
	return nil
}

// OnVersion has f called with each value that [Informer.Version] takes from now on: those that are reached, and 0 when a
// new history begins, after [Informer.Reset]. So it can be said at once that a write of one's own has been seen:
//
//	stop := inf.OnVersion(func(v informer.Version) { exp.VersionObserved(uint64(v)) })
//	exp.VersionObserved(uint64(inf.Version())) // what was reached before
//
// Versions that come together are told as the last of them. f is called by the goroutine of Run, without locks, when the
// cache holds everything up to the version and the handlers have it waiting. It holds up the cache, so it must be quick, and
// must not wait for the informer. A panic is reported to Config.OnError. When stop has returned, no version that is reached
// after that is told.
func (in *Informer[K, T]) OnVersion(f func(Version)) (stop func()) {
	if f == nil {
		panic("informer: OnVersion called with a nil function")
	}
	this := &follower{f}
	in.progress.follow(this)
	return func() { in.progress.unfollow(this) }
}

// LastHeard returns when the source last said something: a list, an event or a bookmark. It is zero before the first.
func (in *Informer[K, T]) LastHeard() time.Time { return in.progress.lastHeard() }

// Stale reports whether the source has been silent for longer than d, or has never been heard.
//
// A source that is a [Bookmarker] is silent since [Informer.LastHeard]. It gets twice the time that it promises, if that is
// more than d. Any other source may have nothing to say, so it also counts as heard while a watch is open, and until the end
// of a watch that lasted for at least a second. Then Stale does not notice a connection that has died without an error, or an
// attempt to connect that hangs: only bookmarks show those.
func (in *Informer[K, T]) Stale(d time.Duration) bool {
	return in.progress.silent(in.promise > 0) > max(d, 2*in.promise)
}

// Reset is for a source whose versions have gone back, because it was restored from a backup or replaced by another
// one. An informer refuses its lists, and reports so, for as long as they are older than what it has seen, because it
// cannot tell them from those of a replica that lags. After Reset it lists at once and takes what comes, at any version.
//
// The cache and the handlers go from what they hold to the new list, with tombstones for what it lacks. When it is
// applied, Version starts anew from 0: it may be lower than before. Versions of the old history mean nothing in the
// new one; whoever waits for one waits for that number.
func (in *Informer[K, T]) Reset() { in.reflector.order(&in.reflector.anew) }

// begin lets one Run through.
func (in *Informer[K, T]) begin() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case isClosed(in.ended):
		return ErrEnded
	case in.running:
		return ErrRunning
	}
	in.running = true
	return nil
}

// end lets nobody through any more.
func (in *Informer[K, T]) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	close(in.ended)
}

// poke makes Run take a step. It never blocks.
func (in *Informer[K, T]) poke() {
	select {
	case in.wake <- struct{}{}:
	default: // a token is there
	}
}
