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

	// idleTime is how long a watch that waits says nothing at most.
	idleTime = 4 * time.Second
)

// Run is the run that a view belongs to.
type Run interface {
	Version() informer.Version // of the database
	Reconciles() int           // since the last step of the user, or since the end of a fault
	WakeUp()                   // a watch has come to the end of what it may hear
}

// View is an informer of a process, and what it may hear.
type View struct {
	Steps informer.Steps // that drive the informer; nil if it runs by itself

	informer any
	process  string
	run      Run
	seen     func() informer.Version
	wake     chan struct{} // of a view without Steps, has the watch go on; of capacity 1
	idled    bool          // the last that the watch has told is that there is nothing; of its goroutine

	mu sync.Mutex
	// mu guards the following.
	kind   string // empty until it has listed
	listed bool
	frozen bool
	at     informer.Version // of a view that is frozen
	gap    bool             // of a view that is frozen: its watch breaks when it thaws
	since  time.Time        // of a view that is frozen
	before int              // Reconciles of the run when the view froze
	expire bool             // the watch has to break

	// Of a view without Steps.
	waiting bool             // the watch waits until there is something to hear
	told    informer.Version // that the watch has come to
	allow   informer.Version // up to which it may go
}

// New returns the view of an informer of a process.
func New(in any, process string, run Run) (*View, error) {
	versioned, ok := in.(interface{ Version() informer.Version })
	if !ok {
		return nil, fmt.Errorf("simtest: %T is no informer, and cannot be driven", in)
	}
	return &View{informer: in, process: process, run: run, seen: versioned.Version, wake: make(chan struct{}, 1)}, nil
}

// Of reports whether the view is that of an informer.
func (v *View) Of(in any) bool { return v.informer == in }

// Seen is the version up to which the cache has heard.
func (v *View) Seen() informer.Version { return v.seen() }

// contextKey is the key of the view in the context of an informer.
type contextKey struct{}

// In returns a context of the informer, by which [From] finds the view.
func (v *View) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, v)
}

// From returns the view that ctx belongs to, or nil.
func From(ctx context.Context) *View {
	v, _ := ctx.Value(contextKey{}).(*View)
	return v
}

// limitLocked is the version up to which the view may hear.
func (v *View) limitLocked() informer.Version {
	if v.frozen {
		return v.at
	}
	return v.run.Version()
}

// mayHearLocked is the version up to which the watch goes on.
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

// Lists notes that the view lists a kind, and returns the version up to which it hears.
func (v *View) Lists(kind string) informer.Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kind, v.listed, v.expire = kind, true, false
	v.allow = v.limitLocked()
	return v.allow
}

// Kind returns the kind, or empty if the view has not listed.
func (v *View) Kind() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kind
}

// Freeze stops the view at a version, if it is of the kind. An empty kind is any.
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

// Thaw has the view hear again, and list if its watch breaks. Without gaps, it leaves those alone whose gap has not ended.
// It returns false if the view is not frozen.
func (v *View) Thaw(gaps bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.frozen || v.gap && !gaps {
		return false
	}
	v.frozen, v.expire, v.gap = false, v.gap, false
	return true
}

// Relist thaws the view, if it is of the kind, and has it list again.
func (v *View) Relist(kind string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kind == kind && v.frozen {
		v.frozen, v.expire, v.gap = false, true, false
	}
}

// Next returns up to where a watch may go on that has come to a version, or the error with which it ends. Without Steps it waits until
// there is something to hear, or for some time, and then returns the version itself: the watch is open, and has nothing new.
func (v *View) Next(ctx context.Context, at informer.Version) (limit informer.Version, err error) {
	for {
		v.mu.Lock()
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
			err = fmt.Errorf("simtest: watch %s: there is nothing to hear", v.kind)
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

// Hear has the watch of a view without Steps go on, if there is something to hear. It does not wait for it.
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

// Waits reports whether the watch has come to the end of what it may hear.
func (v *View) Waits() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.waiting
}

// isIdle waits until the watch may go on, or ctx ends. It returns true if there was nothing to hear for some time.
func (v *View) isIdle(ctx context.Context) bool {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	select {
	case <-v.wake:
		return false
	case <-ctx.Done():
		return false
	case <-idle.C:
		return true
	}
}

// Unfair returns why the view lags for longer than real caches do, or empty.
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

// Calm begins to count anew how long the view lags.
func (v *View) Calm() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.before = 0
}
