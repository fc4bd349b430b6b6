package simtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// view is an informer of a process, and what it may hear.
type view struct {
	p       *process
	in      any            // the informer
	steps   informer.Steps // of step mode
	source  *source        // of run mode
	version func() informer.Version
	wake    chan struct{} // in run mode, has the watch go on; of capacity 1
	idled   bool          // the last that the watch has told is that there is nothing; of its goroutine

	mu sync.Mutex
	// mu guards the following.
	kind   string // empty until it has listed
	listed bool
	frozen bool
	at     informer.Version // of a view that is frozen
	gap    bool             // of a view that is frozen: its watch breaks when it thaws
	since  time.Time        // of a view that is frozen
	steps0 int              // run.steps when the view froze
	expire bool             // the watch has to break

	// In run mode.
	waiting bool             // the watch waits until there is something to hear
	told    informer.Version // that the watch has come to
	allow   informer.Version // up to which it may go
}

// limitLocked is the version up to which the view may hear.
func (v *view) limitLocked() informer.Version {
	if v.frozen {
		return v.at
	}
	return v.p.run.db.version()
}

// mayHearLocked is the version up to which the watch goes on.
func (v *view) mayHearLocked() informer.Version {
	if v.steps == nil {
		return v.allow
	}
	return v.limitLocked()
}

// behind reports whether there is something to read.
func (v *view) behind() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.listed || v.expire || v.version() < v.limitLocked()
}

// lists notes that the view lists a kind, and returns the version up to which it hears.
func (v *view) lists(kind string) informer.Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kind, v.listed, v.expire = kind, true, false
	v.allow = v.limitLocked()
	return v.allow
}

// of returns the kind, or empty if the view has not listed.
func (v *view) of() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kind
}

// freeze stops the view at a version, if it is of the kind. An empty kind is any.
func (v *view) freeze(kind string, at informer.Version, gap bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if kind != "" && v.kind != kind {
		return
	}
	if !v.frozen {
		v.frozen, v.at, v.since, v.steps0 = true, at, time.Now(), v.p.run.steps
	}
	v.gap = v.gap || gap
}

// thaw has the view hear again, and list if its watch breaks. Without gaps, it leaves those alone whose gap has not ended.
// It returns false if the view is not frozen.
func (v *view) thaw(gaps bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.frozen || v.gap && !gaps {
		return false
	}
	v.frozen, v.expire, v.gap = false, v.gap, false
	return true
}

// relist thaws the view, if it is of the kind, and has it list again.
func (v *view) relist(kind string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kind == kind && v.frozen {
		v.frozen, v.expire, v.gap = false, true, false
	}
}

// viewOf returns the view of an informer, and makes it if there is none.
func (p *process) viewOf(src any) (*view, error) {
	if i := slices.IndexFunc(p.views, func(v *view) bool { return v.in == src }); i >= 0 {
		return p.views[i], nil
	}
	in, ok := src.(interface{ Version() informer.Version })
	if !ok {
		return nil, fmt.Errorf("simtest: %T is no informer, and cannot be driven", src)
	}
	v := &view{p: p, in: src, version: in.Version, wake: make(chan struct{}, 1)}
	p.views = append(p.views, v)
	return v, nil
}

// watch drives an informer, once.
func (p *process) watch(src any) error {
	v, err := p.viewOf(src)
	if err != nil || v.steps != nil {
		return err
	}
	in, ok := src.(interface {
		Steps(ctx context.Context) (informer.Steps, error)
	})
	if !ok {
		return fmt.Errorf("simtest: %T is no informer, and cannot be driven", src)
	}
	if v.steps, err = in.Steps(context.WithValue(p.ctx, viewKey{}, v)); err != nil {
		return err
	}
	p.ends = append(p.ends, v.steps.Stop)
	return nil
}

// next returns up to where a watch may go on that has come to a version, or the error with which it ends. In run mode it waits until
// there is something to hear, or for some time, and then returns the version itself: the watch is open, and has nothing new.
func (v *view) next(ctx context.Context, at informer.Version) (limit informer.Version, err error) {
	for {
		v.mu.Lock()
		switch limit := v.mayHearLocked(); {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case v.expire:
			v.expire = false
			err = fmt.Errorf("%w: a fault has broken the watch", backend.ErrExpired)
		case at > v.p.run.db.version():
			err = fmt.Errorf("%w: version %d is in the future", backend.ErrExpired, at)
		case at < limit:
			v.mu.Unlock()
			return limit, nil
		case v.steps != nil:
			err = fmt.Errorf("simtest: watch %s: there is nothing to hear", v.kind)
		}
		v.waiting, v.told = err == nil, at
		v.mu.Unlock()
		if err != nil {
			return 0, err
		}
		if !v.idled {
			v.p.run.wakeUp()
		}
		if v.idled = v.isIdle(ctx); v.idled {
			return at, nil // a bookmark
		}
	}
}

// hear has the watch of the view go on, if there is something to hear.
func (v *view) hear() bool {
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
		synctest.Wait()
	}
	return hears
}

func (v *view) isWaiting() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.waiting
}

// idleTime is how long a watch says nothing at most, in run mode.
const idleTime = 4 * time.Second

// isIdle waits until the watch may go on, or ctx ends. It returns true if there was nothing to hear for some time.
func (v *view) isIdle(ctx context.Context) bool {
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
