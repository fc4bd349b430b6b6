package simtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	// fairReconciles and fairTime are how long a cache may lag while a rule is broken, and fairReconciles also how many reconciles a
	// controller may begin later than the others. Longer is unfair: real caches catch up, and real controllers begin.
	fairReconciles = 100
	fairTime       = time.Minute

	// idleTime is the maximum time that a waiting watch stays silent. It should differ from every timer of the systems.
	idleTime = backend.BookmarkInterval - time.Millisecond
)

// input is an informer of a process, and the changes that it may receive: everything, nothing after some version, or, after a broken watch,
// a list. When an input thaws, it receives everything again: each change in order, or a list if its watch breaks.
type input struct {
	steps informer.Steps  // drives the informer; nil if it runs by itself
	ctx   context.Context // of steps

	p        *process
	informer controller.Informer
	cached   func() informer.Version // the version that the cache has reached
	wake     chan struct{}           // without steps: resumes the watch; of capacity 1
	idle     *time.Timer             // of the goroutine of the watch: when it reports that there is nothing new; nil before the first wait
	idled    bool                    // of the goroutine of the watch: its last report was that there is nothing new

	mu sync.Mutex
	// mu guards the following.
	listed  string           // the kind; empty before the first list
	watched bool             // if not, but listed: its source polls
	frozen  bool             // it receives nothing that was committed after the next
	at      informer.Version // of a frozen input
	gap     bool             // of a frozen input: its watch breaks when it thaws
	since   time.Time        // of a frozen input
	before  int              // reconciles of the run when the input froze
	expire  bool             // the watch must break
	asks    int              // reads after which it has done what it was asked for, unless its watch has nothing new before that
	allow   informer.Version // the version of the last list; without steps, the watch may go up to it, or to a later one

	// Without steps.
	waiting bool             // the watch waits until there is something new
	reached informer.Version // the version that the watch has reached
	late    time.Time        // when the next list became necessary, of a source that polls; zero if it is not
}

// newInput returns the input of an informer of a process.
func newInput(p *process, src controller.Informer) (*input, error) {
	versioned, ok := src.(interface{ Version() informer.Version })
	if !ok {
		return nil, fmt.Errorf("simtest: %T is not an informer, and cannot be driven", src)
	}
	return &input{p: p, informer: src, cached: versioned.Version, wake: make(chan struct{}, 1)}, nil
}

// version is the version that the cache has reached.
func (in *input) version() informer.Version {
	in.mu.Lock()
	defer in.mu.Unlock()
	seen := in.cached()
	if in.steps == nil && in.pollsLocked() {
		seen = max(seen, in.allow) // even if the source has versions of its own
	}
	return seen
}

// inputKey is the key of the input in the context of an informer.
type inputKey struct{}

// context returns a context of the informer, in which [inputFrom] finds the input.
func (in *input) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, inputKey{}, in)
}

// inputFrom returns the input that ctx belongs to, or nil.
func inputFrom(ctx context.Context) *input {
	in, _ := ctx.Value(inputKey{}).(*input)
	return in
}

// limitLocked is the version up to which the input may read.
func (in *input) limitLocked() informer.Version {
	if in.frozen {
		return in.at
	}
	return in.p.run.db.version()
}

// watchLimitLocked is the version up to which the watch may go.
func (in *input) watchLimitLocked() informer.Version {
	if in.steps == nil {
		return in.allow
	}
	return in.limitLocked()
}

// behind reports whether there is something to read.
func (in *input) behind() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.listed == "" || in.expire || in.asks > 0 || in.cached() < in.limitLocked()
}

// ask makes the input read even if there is nothing new, because its informer may have something else to do. That is up to three reads: the end of a
// slot, and the lists for Hold and CatchUp.
func (in *input) ask() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asks = 3
}

// answered counts a read. A watch that has nothing new says that all is done, but a source that polls has none.
func (in *input) answered() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.asks > 0 && in.pollsLocked() {
		in.asks--
	}
}

// beginList records that the input lists a kind, and returns the version up to which it may read.
func (in *input) beginList(kind string) informer.Version {
	in.mu.Lock()
	defer in.mu.Unlock()
	limit := in.limitLocked()
	news := in.steps == nil && in.pollsLocked() && in.allow < limit
	in.listed, in.expire, in.late = kind, false, time.Time{}
	in.allow = limit
	if news {
		in.p.run.touch()
		in.p.run.wakeUp()
	}
	return limit
}

// polls reports whether the source of the informer lists again and again, and never watches. It can be asked after the second list.
func (in *input) polls() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.pollsLocked()
}

func (in *input) pollsLocked() bool { return in.listed != "" && !in.watched }

// lateSince returns since when an input without steps lacks a change that the next list of its source will show. It returns zero if it lacks
// none, or if its source watches.
func (in *input) lateSince() time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.pollsLocked() || in.allow >= in.limitLocked() {
		return time.Time{}
	}
	if in.late.IsZero() {
		in.late = time.Now()
	}
	return in.late
}

// kind returns the kind, or "" if the input has not listed.
func (in *input) kind() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.listed
}

// sourceKind returns the kind of the store that is the source of the informer, even if the input has not listed; or "".
func (in *input) sourceKind() string {
	if made, ok := in.informer.(interface{ Source() any }); ok {
		if of, ok := reconcile.SourceAs[interface{ Kind() string }](made.Source()); ok {
			return of.Kind()
		}
	}
	return ""
}

// freeze stops the input at a version, if it is of the kind. An empty kind matches any.
func (in *input) freeze(kind string, at informer.Version, gap bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if kind != "" && in.listed != kind {
		return
	}
	if !in.frozen {
		in.frozen, in.at, in.since, in.before = true, at, time.Now(), in.p.run.reconciles
	}
	in.gap = in.gap || gap
}

// thaw unfreezes the input, and makes it list if its watch breaks. Without gaps, it leaves inputs alone whose gap has not ended. It returns
// false if the input is not frozen.
func (in *input) thaw(gaps bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.frozen || in.gap && !gaps {
		return false
	}
	in.frozen, in.expire, in.gap = false, in.gap, false
	return true
}

// relist thaws the input, if it is of the kind, and makes it list again.
func (in *input) relist(kind string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.listed == kind && in.frozen {
		in.frozen, in.expire, in.gap = false, true, false
	}
}

// nextLimit returns the version up to which a watch may go that has reached the given version, or the error with which it ends. Without steps,
// it waits until there is something new. After some time without news it returns the given version itself: the watch is open, and has
// nothing new.
func (in *input) nextLimit(ctx context.Context, at informer.Version) (limit informer.Version, err error) {
	for {
		in.mu.Lock()
		in.watched = true
		switch limit := in.watchLimitLocked(); {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case in.expire:
			in.expire = false
			err = fmt.Errorf("%w: a fault has broken the watch", backend.ErrExpired)
		case at > in.p.run.db.version():
			err = fmt.Errorf("%w: version %d is in the future", backend.ErrExpired, at)
		case at < limit:
			in.mu.Unlock()
			return limit, nil
		case in.asks > 0:
			in.asks = 0
			in.mu.Unlock()
			return at, nil // a bookmark
		case in.steps != nil:
			err = fmt.Errorf("simtest: watch %s: there is nothing new", in.listed)
		}
		in.waiting, in.reached = err == nil, at
		in.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if !in.idled {
			in.p.run.wakeUp()
		}
		if in.idled = in.isIdle(ctx); in.idled {
			return at, nil // a bookmark
		}
	}
}

// resume resumes the watch of an input without steps, if there is something new. It does not wait for the watch.
func (in *input) resume() bool {
	in.mu.Lock()
	limit := in.limitLocked()
	ready := in.waiting && (in.expire || in.reached < limit)
	if ready {
		in.allow, in.waiting = limit, false
	}
	in.mu.Unlock()
	if ready {
		select {
		case in.wake <- struct{}{}:
		default:
		}
	}
	return ready
}

// upToDate reports whether the input has reached its limit. If its source polls and has versions of its own, nobody can know that.
func (in *input) upToDate() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.waiting || in.pollsLocked() && in.cached() >= in.limitLocked()
}

// isIdle waits until the watch may go on, or ctx ends. It returns true if there was nothing new for some time.
func (in *input) isIdle(ctx context.Context) bool {
	if in.idle == nil {
		in.idle = time.NewTimer(idleTime)
	} else {
		in.idle.Reset(idleTime)
	}
	defer in.idle.Stop()
	select {
	case <-in.wake:
		return false
	case <-ctx.Done():
		return false
	case <-in.idle.C:
		return true
	}
}

// fairUntil returns until when a lag may last, or zero if there is none. A gap may last longer: its watch is broken.
func (in *input) fairUntil() time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.frozen || in.gap {
		return time.Time{}
	}
	return in.since.Add(fairTime)
}

// unfair returns why the input lags for longer than real caches do, or "".
func (in *input) unfair() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.frozen {
		return ""
	}
	if n := in.p.run.reconciles - in.before; n > fairReconciles {
		return fmt.Sprintf("only while the cache of %s by %s lags, by then for %d reconciles", in.listed, in.p.name, n)
	}
	if d := time.Since(in.since); d > fairTime {
		return fmt.Sprintf("only while the cache of %s by %s lags, by then for %v", in.listed, in.p.name, d.Round(time.Second))
	}
	return ""
}

// calm restarts the count of how long the input lags.
func (in *input) calm() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.before = 0
}
