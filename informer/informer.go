package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/wait"
)

// Config is the configuration of an [Informer]. Its zero value can be used.
type Config struct {
	// Name identifies the informer in errors and logs. Defaults to the type of its objects.
	Name string

	// ResyncPeriod is the time between two resyncs: in a resync, each handler is called again for every object of the cache, by OnResync or
	// as an update from the object to itself. Resyncs repair handlers that lose changes. Zero or a negative value means no resyncs.
	ResyncPeriod time.Duration

	// Backoff is the delay between attempts after an error of the source, and before a new list if an object could not be applied. It starts
	// over after a successful list or event, and after a watch that ended without an error. Defaults to 800 ms, doubled each time up to
	// 30 s, with a random addition of up to the same length. If another field is set, Duration must be positive. Its Steps are ignored: an
	// informer does not give up. Two goroutines may call its Rand concurrently.
	Backoff wait.Backoff

	// OnError is called for each error: a list or watch that failed, a list with several objects of one key, or a panic of a handler as a
	// [*wait.PanicError]. The informer continues in every case. Several goroutines may call OnError concurrently, without locks. The
	// informer waits for it, and it must not panic. Defaults to a line in the log at level Warn.
	OnError func(error)

	// Logger receives debug messages, and errors if OnError is nil. Defaults to slog.Default().
	Logger *slog.Logger
}

// withDefaults returns cfg with every field set, for an informer of T.
func withDefaults[T any](cfg Config) Config {
	cfg.Name = cmp.Or(cfg.Name, reflect.TypeFor[T]().String())
	if cfg.Backoff.IsZero() {
		cfg.Backoff = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 30 * time.Second}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.Logger = cfg.Logger.With("informer", cfg.Name)
	if cfg.OnError == nil {
		cfg.OnError = warn(cfg.Logger)
	}
	return cfg
}

// validate returns an error that names each field that is out of its bounds.
func (cfg Config) validate() error {
	if !cfg.Backoff.IsZero() && cfg.Backoff.Duration <= 0 {
		// The informer would call a failing source in a tight loop.
		return fmt.Errorf("Config.Backoff.Duration is %v, must be positive if another field of Config.Backoff is set", cfg.Backoff.Duration)
	}
	return nil
}

// warn returns an OnError that writes to log.
func warn(log *slog.Logger) func(error) {
	return func(err error) {
		attrs := []slog.Attr{slog.Any("error", err)}
		if crash := (*wait.PanicError)(nil); errors.As(err, &crash) {
			attrs = append(attrs, slog.String("stack", string(crash.Stack)))
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "continuing after an error", attrs...)
	}
}

var (
	// ErrExpired ends a watch if the changes after its version are no longer in the history of the source. The consumer must list again.
	ErrExpired = errors.New("version is no longer in the history of the source")

	// ErrNewHistory ends a watch if the source has a new history: it was restored from a backup, or deleted and created again.
	// An informer lists again, and accepts any version, as after [Informer.Reset]. ErrNewHistory wraps ErrExpired.
	ErrNewHistory = fmt.Errorf("the source has begun a new history: %w", ErrExpired)

	// ErrRunning is wrapped by the errors of Run and Steps while another Run or Steps is in progress.
	ErrRunning = errors.New("already running")

	// ErrEnded is wrapped by the errors of Run, Steps, AddHandler, WaitForVersion and Registration.WaitIdle after Run has ended: an
	// informer runs once. The error of WaitIdle also wraps it if the handler was removed.
	ErrEnded = errors.New("has ended")
)

// errShortWatch reports that a watch was useless, so that the next one comes after a backoff.
var errShortWatch = errors.New("it ended at once and brought nothing new")

// olderError reports a list that is older than what was seen: it may come from a replica that lags.
type olderError struct{ list, seen Version }

func (e *olderError) Error() string {
	return fmt.Sprintf("the list is of version %d, but version %d was seen", e.list, e.seen)
}

// errExit reports that the source has ended the goroutine that reads it.
var errExit = errors.New("it has called runtime.Goexit")

// Informer mirrors a source into a cache, and calls handlers for changes. The package documentation lists its guarantees. It is a
// [cache.Reader] and a [Syncer]. It runs once: by [Informer.Run], or step by step by [Informer.Steps].
//
// Several goroutines may call its methods concurrently.
type Informer[K comparable, T any] struct {
	cfg       Config
	key       cache.KeyFunc[K, T]
	indexer   *cache.Indexer[K, T] // written by Run only
	unread    unread[K]            // written by Run only
	buffer    buffer[K, T]
	reflector *reflector[K, T]
	progress  progress
	catchUps  catchUps
	slots     *slots[K, T] // nil unless the source is divided

	synced chan struct{} // closed by Run when the cache holds the first list
	ended  chan struct{} // closed by Run when it returns
	errors atomic.Uint64 // that were reported
	wake   chan struct{} // holds a token when Run has something to do; sent by the reflector, AddHandler, WaitIdle and Run

	flushing atomic.Bool            // a listener has a new flush: set by WaitIdle, reset by a step
	calling  atomic.Pointer[string] // the name of the inline handler that is called; nil if none is

	// Used by Run's goroutine only, except for the seed of applier, which never changes.
	applier     applier[K, T]
	spare       []input[K, T]
	scans       []*scan[K, T]
	late        []*listener[K, T] // inline handlers that have joined and are not direct yet
	piece       int               // the number of objects that a scan, or callPending, reports at once
	rescheduled bool              // the time of the next resync may have changed

	mu sync.Mutex
	// mu guards the following.
	running   bool // never reset: an informer that has ended still counts as running
	added     int  // handlers added so far
	joining   []*listener[K, T]
	listeners []*listener[K, T] // joined; never changed in place
}

// New returns an informer of src. key returns the key of an object. The informer does nothing before Run. The error names each
// field of cfg that is out of its bounds, or says that src is made from a source of [Divide]. New panics if src or key is nil.
func New[K comparable, T any](src ListWatcher[T], key cache.KeyFunc[K, T], cfg Config) (*Informer[K, T], error) {
	if src == nil || key == nil {
		panic("informer: New needs a source and a key function")
	}
	if err := errors.Join(cfg.validate(), checkDivided(src)); err != nil {
		return nil, fmt.Errorf("informer: new informer: %w", err)
	}
	in := &Informer[K, T]{
		cfg:      withDefaults[T](cfg),
		key:      key,
		indexer:  cache.NewIndexer(key),
		piece:    pieceSize,
		synced:   make(chan struct{}),
		ended:    make(chan struct{}),
		wake:     make(chan struct{}, 1),
		catchUps: newCatchUps(src),
	}
	report := in.cfg.OnError
	in.cfg.OnError = func(err error) {
		in.errors.Add(1)
		report(err)
	}
	in.buffer.wake, in.buffer.room = in.signal, make(chan struct{}, 1)
	in.reflector = &reflector[K, T]{
		src: src, pages: pagesOf(src), key: key, buffer: &in.buffer, progress: &in.progress, catchUps: &in.catchUps, cfg: in.cfg,
	}
	in.applier = applier[K, T]{
		name: in.cfg.Name, indexer: in.indexer, unread: &in.unread, equal: equalOf(src), onError: in.cfg.OnError, seed: maphash.MakeSeed(),
	}
	if source, ok := src.(*divided[T]); ok {
		in.slots = &slots[K, T]{source: source}
		in.applier.slots, in.reflector.slots = in.slots, in.slots
	}
	return in, nil
}

// Name returns the name from the Config.
func (in *Informer[K, T]) Name() string { return in.cfg.Name }

// Source returns the source given to New.
func (in *Informer[K, T]) Source() any { return in.reflector.src }

// Indexer returns the cache. It may be read, and indexes may be added, at any time. Only the informer may write to it.
func (in *Informer[K, T]) Indexer() *cache.Indexer[K, T] { return in.indexer }

// Get returns the cached object with the given key.
func (in *Informer[K, T]) Get(key K) (T, bool) { return in.indexer.Get(key) }

// All iterates over the objects of the cache, in the order in which their keys arrived. See [cache.Indexer.All].
func (in *Informer[K, T]) All() iter.Seq2[K, T] { return in.indexer.All() }

// Unread returns nil if [Informer.Get] has the current state of key, or if the object does not exist. Otherwise the object exists, or may
// exist, and the error says why its current state is not in the cache:
//
//   - The source could not read it: see [Unreadable] and [List].Unread. Get has the last state that was read, if there was one.
//   - An index function has panicked for it.
//   - The last list has Missing records, the object is not in the list, and no event has deleted it since. Get has its last state, or none.
//
// So before an action for an object that Get does not find, such as removing what belongs to it, ask Unread, and then Get again. A
// controller does so for the keys of controller.For. The result is also nil before the first list: see [Informer.HasSynced].
func (in *Informer[K, T]) Unread(key K) error {
	err, missing := in.unread.get(key)
	if err == nil && missing != nil {
		if _, ok := in.indexer.Get(key); !ok {
			return missing
		}
	}
	return err
}

// AllUnread iterates over the objects of which the current state is not in the cache, by key, with the errors of [Informer.Unread]. Keys that
// nobody could read are not among them: see [Informer.Missing]. The order is that in which the keys became unread.
func (in *Informer[K, T]) AllUnread() iter.Seq2[K, error] { return in.unread.all() }

// Missing returns an error if the last list had Missing records, with the first of their errors: until the next complete list, the cache
// may lack objects that exist, or have some that were deleted. Otherwise it returns nil. While records are missing, an event may be about one of
// them, if the cache has no readable state of its object. So the informer lists again after such an event, with the delays of Config.Backoff.
func (in *Informer[K, T]) Missing() error { return in.unread.isMissing() }

// OnReadable calls f, from now on, after objects that were unread have been read or deleted, or after a list without Missing records has
// followed one with some. The goroutine of Run calls f, without locks, when the cache and [Informer.Unread] show that. f must be quick, and
// must not wait for the informer. A panic is reported to Config.OnError. After stop has returned, f is not called for later changes.
// OnReadable panics if f is nil.
func (in *Informer[K, T]) OnReadable(f func()) (stop func()) {
	if f == nil {
		panic("informer: OnReadable called with a nil function")
	}
	return in.unread.observers.add(func(struct{}) { f() })
}

// OnUnread calls f, from now on, with the key of each object that becomes unread, as [Informer.AllUnread] has it. The goroutine of Run calls f, as
// it calls that of OnReadable. OnUnread panics if f is nil.
func (in *Informer[K, T]) OnUnread(f func(key K)) (stop func()) {
	if f == nil {
		panic("informer: OnUnread called with a nil function")
	}
	return in.unread.added.add(f)
}

// Keys iterates over the keys of the cache, in the order in which they arrived. See [cache.Indexer.All].
func (in *Informer[K, T]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range in.All() {
			if !yield(key) {
				return
			}
		}
	}
}

// Key returns the key of obj, as the function given to New does.
func (in *Informer[K, T]) Key(obj T) K { return in.key(obj) }

// Run mirrors the source until ctx ends. It returns nil after every goroutine that it started has ended: by then the source and all
// callbacks have returned, and no callback runs after that. Pending changes are dropped: a new informer reports the current states to its
// handlers. The cache can still be read.
//
// A second Run returns an error at once: [ErrRunning] while the first Run, or [Informer.Steps], is in progress, [ErrEnded] after
// that. Run panics if New has not made the informer.
func (in *Informer[K, T]) Run(ctx context.Context) error {
	if in.indexer == nil {
		panic("informer: Run called on an Informer that New has not made")
	}
	if err := in.begin(); err != nil {
		return fmt.Errorf("informer: run %s: %w", in.cfg.Name, err)
	}
	// Deferred, so that nothing is left running if OnError panics, which is not captured.
	defer in.end()
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// Reads the source, which blocks. It ends with ctx; goroutines.Wait waits for it.
	var read func()
	read = func() { in.reflector.run(ctx, func() { goroutines.Go(read) }) }
	goroutines.Go(read)

	start := func(l *listener[K, T]) {
		// Calls a handler, which may block but must not block the informer. It ends with ctx, or when the handler is removed;
		// goroutines.Wait waits for it, and so does the channel of Remove.
		goroutines.Go(func() { l.run(ctx) })
	}

	defer in.stopAll()
	due := &timers[K, T]{in: in}
	defer due.stop()
	for ctx.Err() == nil {
		due.set()
		select {
		case <-in.wake:
			in.step(in.buffer.take(in.spare), start)
		case <-due.again:
			due.relist()
		case now := <-due.tick:
			in.resync(now)
		case <-ctx.Done():
		}
	}
	return nil
}

// AddHandler adds a handler, at any time before Run ends. The handler joins when the cache holds the first list, or, if it already does,
// before the next change is applied. It gets every object that is in the cache at that moment, with inInitialList, and every change after
// that. So on an informer that has synced, an object that is created after AddHandler has returned is never reported with inInitialList.
//
// While Run is in progress, the first callback may run before AddHandler has returned. If a callback needs the Registration, pass it
// through a channel, for example.
//
// After Run has ended, AddHandler returns an error that wraps [ErrEnded].
func (in *Informer[K, T]) AddHandler(h Handler[K, T]) (Registration, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if broadcast.IsClosed(in.ended) {
		return nil, fmt.Errorf("informer: add handler to %s: %w", in.cfg.Name, ErrEnded)
	}
	in.added++
	l := newListener(in, fmt.Sprintf("%s handler %d", in.cfg.Name, in.added), h)
	in.joining = append(in.joining, l)
	in.signal()
	return l, nil
}

// Synced returns a channel that is closed when the cache holds the first list. If Run ends first, it is never closed.
func (in *Informer[K, T]) Synced() <-chan struct{} { return in.synced }

// HasSynced reports whether Synced is closed.
func (in *Informer[K, T]) HasSynced() bool { return broadcast.IsClosed(in.synced) }

// Version returns the version of the source up to which every change has been applied to the cache. For the handlers, these changes
// are at least pending; those with Inline are being called for them, or have been. It is 0 before the first list. It never decreases, except
// that it restarts at 0 when a new history begins after [Informer.Reset].
func (in *Informer[K, T]) Version() Version { return in.progress.at() }

// WaitForVersion waits until Version is at least v, and until the handlers with Inline, and the functions of OnVersion, have been called for
// it. If ctx ends first, its error wraps the cause of ctx. If Run ends first, its error wraps [ErrEnded].
func (in *Informer[K, T]) WaitForVersion(ctx context.Context, v Version) error {
	if err := in.progress.wait(ctx, v, in.ended); err != nil {
		return fmt.Errorf("informer: wait for version of %s: %w", in.cfg.Name, err)
	}
	return nil
}

// OnVersion calls f with each new value of [Informer.Version] from now on, including 0 when a new history begins after [Informer.Reset].
// For example, expectations can observe versions immediately:
//
//	stop := inf.OnVersion(func(v informer.Version) { exp.VersionObserved(uint64(v)) })
//	exp.VersionObserved(uint64(inf.Version())) // the version reached before
//
// If several versions are reached together, f is called with the last one. The goroutine of Run calls f, without locks, when the cache
// holds everything up to the version, the changes are pending for the handlers, and those with Inline have been called for them. The cache
// waits for f, so f must be quick, and must not wait for the informer. A panic is reported to Config.OnError. After stop has returned, f is
// not called for versions that are reached later. OnVersion panics if f is nil.
func (in *Informer[K, T]) OnVersion(f func(Version)) (stop func()) {
	if f == nil {
		panic("informer: OnVersion called with a nil function")
	}
	return in.progress.observers.add(f)
}

// LastReceived returns the time of the last list, event, or bookmark of the source. It is zero before the first.
func (in *Informer[K, T]) LastReceived() time.Time { return in.progress.lastReceived() }

// Stale reports whether the source has been silent for longer than d, or has never yielded anything.
//
// The silence of a [Bookmarker] is counted from [Informer.LastReceived]. If twice its present period is longer than d, that is the limit
// instead. Any other source may have nothing to report, so an open watch is not silence. After a watch of at least a second, silence is
// counted from the end of the watch. So for such a source, Stale does not detect a connection that died without an error, or an attempt to
// connect that hangs. Only bookmarks reveal those.
func (in *Informer[K, T]) Stale(d time.Duration) bool {
	period := bookmarkPeriod(in.reflector.src)
	return in.LastReceived().IsZero() || in.progress.silent(period > 0) > max(d, 2*min(period, math.MaxInt64/2))
}

// Reset is for a source whose versions have gone back, because it was restored from a backup or replaced by another source. Without Reset,
// an informer rejects and reports lists that are older than the cache: they may come from a lagging replica. After Reset, the informer
// lists at once, and accepts any version.
//
// The cache and the handlers move from their current state to the new list, with tombstones for objects that are not in it. When the list
// is applied, Version restarts at 0, so it may be lower than before. Versions of the old history mean nothing in the new one. A
// WaitForVersion in progress waits for its number.
func (in *Informer[K, T]) Reset() {
	in.reflector.anew.Store(true)
	in.reflector.resets.Add(1) // after it: a turn that has read this number reads anew too
	in.reflector.retry()
}

// begin allows one Run.
func (in *Informer[K, T]) begin() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case broadcast.IsClosed(in.ended):
		return ErrEnded
	case in.running:
		return ErrRunning
	}
	in.running = true
	return nil
}

// end allows no further Run.
func (in *Informer[K, T]) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	close(in.ended)
}

// signal makes Run take a step. It never blocks.
func (in *Informer[K, T]) signal() {
	select {
	case in.wake <- struct{}{}:
	default: // a token is already there
	}
}
