package view

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	// fairReconciles and fairTime are how long a cache may lag while a rule is broken. Longer is unfair: real caches catch up.
	fairReconciles = 100
	fairTime       = time.Minute

	// idleTime is the maximum time that a waiting watch stays silent. It should differ from every timer of the systems.
	idleTime = backend.BookmarkInterval - time.Millisecond
)

// Run is the run that a view belongs to.
type Run interface {
	Version() informer.Version // of the database
	Reconciles() int           // since the last step of the user, or since the end of a fault
	WakeUp()                   // called when a watch has reached its limit, or a list has shown something new
	Touch()                    // called before the latter
}

// View is an informer of a process, and the changes that it may receive.
type View struct {
	Steps   informer.Steps  // drives the informer; nil if it runs by itself
	Context context.Context // of Steps

	informer any
	process  string
	run      Run
	seen     func() informer.Version
	wake     chan struct{} // of a view without Steps: resumes the watch; of capacity 1
	idle     *time.Timer   // of the goroutine of the watch: when it reports that there is nothing new; nil before the first wait
	idled    bool          // of the goroutine of the watch: its last report was that there is nothing new

	mu sync.Mutex
	// mu guards the following.
	kind    string // empty until it has listed
	listed  bool
	watched bool // if not, but listed: its source polls
	frozen  bool
	at      informer.Version // of a view that is frozen
	gap     bool             // of a view that is frozen: its watch breaks when it thaws
	since   time.Time        // of a view that is frozen
	before  int              // Reconciles of the run when the view froze
	expire  bool             // the watch must break

	allow informer.Version // the version of the last list; of a view without Steps, the watch may go up to it, or to a later one

	// Of a view without Steps.
	waiting bool             // the watch waits until there is something new
	told    informer.Version // the version that the watch has reached
	late    time.Time        // when the next list became necessary, of a source that polls; zero if it is not
}

// New returns the view of an informer of a process.
func New(in any, process string, run Run) (*View, error) {
	versioned, ok := in.(interface{ Version() informer.Version })
	if !ok {
		return nil, fmt.Errorf("simtest: %T is not an informer, and cannot be driven", in)
	}
	return &View{informer: in, process: process, run: run, seen: versioned.Version, wake: make(chan struct{}, 1)}, nil
}

// Of reports whether the view belongs to an informer.
func (v *View) Of(in any) bool { return v.informer == in }

// Seen is the version that the cache has reached.
func (v *View) Seen() informer.Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.seen()
	if v.Steps == nil && v.pollsLocked() {
		seen = max(seen, v.allow) // even if the source has versions of its own
	}
	return seen
}

// contextKey is the key of the view in the context of an informer.
type contextKey struct{}

// In returns a context of the informer, in which [From] finds the view.
func (v *View) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, v)
}

// From returns the view that ctx belongs to, or nil.
func From(ctx context.Context) *View {
	v, _ := ctx.Value(contextKey{}).(*View)
	return v
}

// limitLocked is the version up to which the view may read.
func (v *View) limitLocked() informer.Version {
	if v.frozen {
		return v.at
	}
	return v.run.Version()
}

// mayHearLocked is the version up to which the watch may go.
func (v *View) mayHearLocked() informer.Version {
	if v.Steps == nil {
		return v.allow
	}
	return v.limitLocked()
}

// Behind reports whether there is something to read.
func (v *View) Behind() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.listed || v.expire || v.seen() < v.limitLocked()
}

// Lists records that the view lists a kind, and returns the version up to which it may read.
func (v *View) Lists(kind string) informer.Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	limit := v.limitLocked()
	news := v.Steps == nil && v.pollsLocked() && v.allow < limit
	v.kind, v.listed, v.expire, v.late = kind, true, false, time.Time{}
	v.allow = limit
	if news {
		v.run.Touch()
		v.run.WakeUp()
	}
	return limit
}

// Polls reports whether the source of the informer lists again and again, and never watches. It can be asked after the second list.
func (v *View) Polls() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pollsLocked()
}

func (v *View) pollsLocked() bool { return v.listed && !v.watched }

// LateSince returns since when a view without Steps lacks a change that the next list of its source will show. It returns zero if it lacks
// none, or if its source watches.
func (v *View) LateSince() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.pollsLocked() || v.allow >= v.limitLocked() {
		return time.Time{}
	}
	if v.late.IsZero() {
		v.late = time.Now()
	}
	return v.late
}

// Kind returns the kind, or "" if the view has not listed.
func (v *View) Kind() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kind
}

// Freeze stops the view at a version, if it is of the kind. An empty kind matches any.
func (v *View) Freeze(kind string, at informer.Version, gap bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if kind != "" && v.kind != kind {
		return
	}
	if !v.frozen {
		v.frozen, v.at, v.since, v.before = true, at, time.Now(), v.run.Reconciles()
	}
	v.gap = v.gap || gap
}

// Thaw unfreezes the view, and makes it list if its watch breaks. Without gaps, it leaves views alone whose gap has not ended. It returns
// false if the view is not frozen.
func (v *View) Thaw(gaps bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.frozen || v.gap && !gaps {
		return false
	}
	v.frozen, v.expire, v.gap = false, v.gap, false
	return true
}

// Relist thaws the view, if it is of the kind, and makes it list again.
func (v *View) Relist(kind string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kind == kind && v.frozen {
		v.frozen, v.expire, v.gap = false, true, false
	}
}

// Next returns the version up to which a watch may go that has reached the given version, or the error with which it ends. Without Steps,
// it waits until there is something new. After some time without news it returns the given version itself: the watch is open, and has
// nothing new.
func (v *View) Next(ctx context.Context, at informer.Version) (limit informer.Version, err error) {
	for {
		v.mu.Lock()
		v.watched = true
		switch limit := v.mayHearLocked(); {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case v.expire:
			v.expire = false
			err = fmt.Errorf("%w: a fault has broken the watch", backend.ErrExpired)
		case at > v.run.Version():
			err = fmt.Errorf("%w: version %d is in the future", backend.ErrExpired, at)
		case at < limit:
			v.mu.Unlock()
			return limit, nil
		case v.Steps != nil:
			err = fmt.Errorf("simtest: watch %s: there is nothing new", v.kind)
		}
		v.waiting, v.told = err == nil, at
		v.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if !v.idled {
			v.run.WakeUp()
		}
		if v.idled = v.isIdle(ctx); v.idled {
			return at, nil // a bookmark
		}
	}
}

// Hear resumes the watch of a view without Steps, if there is something new. It does not wait for the watch.
func (v *View) Hear() bool {
	v.mu.Lock()
	limit := v.limitLocked()
	hears := v.waiting && (v.expire || v.told < limit)
	if hears {
		v.allow, v.waiting = limit, false
	}
	v.mu.Unlock()
	if hears {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
	return hears
}

// Waits reports whether the view has reached its limit. If its source polls and has versions of its own, nobody can know that.
func (v *View) Waits() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.waiting || v.pollsLocked() && v.seen() >= v.limitLocked()
}

// isIdle waits until the watch may go on, or ctx ends. It returns true if there was nothing new for some time.
func (v *View) isIdle(ctx context.Context) bool {
	if v.idle == nil {
		v.idle = time.NewTimer(idleTime)
	} else {
		v.idle.Reset(idleTime)
	}
	defer v.idle.Stop()
	select {
	case <-v.wake:
		return false
	case <-ctx.Done():
		return false
	case <-v.idle.C:
		return true
	}
}

// Unfair returns why the view lags for longer than real caches do, or "".
func (v *View) Unfair() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.frozen {
		return ""
	}
	if n := v.run.Reconciles() - v.before; n > fairReconciles {
		return fmt.Sprintf("only while the cache of %s by %s lags, by then for %d reconciles", v.kind, v.process, n)
	}
	if d := time.Since(v.since); d > fairTime {
		return fmt.Sprintf("only while the cache of %s by %s lags, by then for %v", v.kind, v.process, d.Round(time.Second))
	}
	return ""
}

// Calm restarts the count of how long the view lags.
func (v *View) Calm() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.before = 0
}
