package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
)

// managed is a part of a manager in the model. The fields are guarded by mu of its world.
type managed struct {
	w         *managedWorld
	kind      string
	name      string
	stage     manager.Stage
	listed    bool       // it was added, and not only listed by others as an informer
	needs     []*managed // of earlier stages: those that must have started before it runs, and synced if they are informers
	informers []*managed // that it lists
	runs      int        // how many of its Runs run: at most 1
	starts    int        // how many have begun
	term      uint64     // of the Run that runs
	removed   bool       // it is being removed, or was dropped
	synced    bool       // an informer

	syncAfter time.Duration // of an informer: of its first Run; later ones take half of it
	lasts     time.Duration // from the end of the context to the return
	lastErr   error         // what it returns after the end of its context
	stuck     bool          // it does not return from a stop before release is closed
	left      bool          // it has ignored a stop
	ready     chan struct{}
	fail      chan func() error
}

// managedWorld is what a manager under test runs, and the state of the model.
type managedWorld struct {
	t      *testing.T
	leases *leases
	stops  bool // a failure stops everything

	mu sync.Mutex
	// mu guards the following, and the parts.
	rand       *rand.Rand
	parts      []*managed // those that were added and are not removed
	added      int
	stopping   bool          // the stop has begun, as far as the test can see
	ended      bool          // Run has returned
	led        uint64        // the last term in which a controller of the leader has run
	hooked     uint64        // the last term in which BeforeRelease was called
	unreleased uint64        // the term whose lease is to be released next, if the store can be reached; else 0
	expected   []string      // parts whose errors Run must return
	release    chan struct{} // closed when Run has returned
	stuck      []string      // parts that Run must leave behind
	slow       int           // parts that it may leave behind
	late       bool          // it may return others: of parts whose context ended before the stop, and which returned after its beginning
}

func (w *managedWorld) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// countLocked returns how many parts run for which the condition holds.
func (w *managedWorld) countLocked(which func(*managed) bool) (n int) {
	for _, p := range w.parts {
		if which(p) {
			n += p.runs
		}
	}
	return n
}

var allStages = []manager.Stage{manager.Outer, manager.Always, manager.Leading}

func isController(p *managed) bool { return p.stage != manager.Outer }
func isLeader(p *managed) bool     { return p.stage == manager.Leading }

func isLeftController(p *managed) bool { return isController(p) && p.left }

// part returns what the manager is given: a part of stage Outer that is not an informer has no method Synced.
func (p *managed) part() manager.Part {
	if p.kind == "part" && p.stage == manager.Outer {
		return manager.At(p.stage, manager.Func(p.name, p.Run))
	}
	return manager.At(p.stage, p)
}

// neededByLocked returns how many parts that list p are there or have not ended.
func (p *managed) neededByLocked() (n int) {
	for _, other := range p.w.parts {
		if slices.Contains(other.informers, p) && (!other.removed || other.runs > 0) {
			n++
		}
	}
	return n
}

func (p *managed) neededLocked() bool { return p.neededByLocked() > 0 }

func (p *managed) Name() string { return p.name }

// Informers lists the informers of p.
func (p *managed) Informers() (informers []controller.Informer) {
	for _, s := range p.informers {
		informers = append(informers, s)
	}
	return informers
}

func (p *managed) Synced() <-chan struct{} { return p.ready }

// Run checks that this is the time to start, waits for its end, and checks that that has come in order.
func (p *managed) Run(ctx context.Context) error {
	began := time.Now()
	p.begin(ctx)
	defer p.end()
	var syncs <-chan time.Time
	if p.kind == "informer" {
		after := p.syncAfter
		if p.starts > 1 {
			after /= 2
		}
		syncs = time.After(after)
	}
	for {
		select {
		case <-syncs:
			syncs = nil
			p.w.locked(func() {
				if !p.synced {
					p.synced = true
					close(p.ready)
				}
			})
		case f := <-p.fail:
			p.w.locked(func() { p.w.failLocked(p) })
			return f()
		case <-ctx.Done():
			if p.checkEnd(ctx) {
				<-p.w.release
				return nil
			}
			if l, ok := leaderelect.FromContext(ctx); !ok || l.Err() == nil {
				time.Sleep(p.lasts)
			}
			tooLate := p.kind == "informer" && !p.synced && time.Since(began) >= 2*time.Minute // at the same moment
			p.w.locked(func() {
				p.w.late = p.w.late || p.w.stopping && (tooLate || p.lastErr != nil)
				if errors.Is(context.Cause(ctx), manager.ErrSyncTimeout) {
					p.w.failLocked(p)
				}
			})
			return p.lastErr
		}
	}
}

// begin checks that p may run now.
func (p *managed) begin(ctx context.Context) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Zero(w.t, p.runs, "%s runs twice at once", p.name)
	assert.False(w.t, w.ended, "%s runs after the end", p.name)
	for _, s := range p.needs {
		if s.kind == "informer" {
			assert.True(w.t, s.synced || s.removed || !s.listed && !s.neededLocked(), "%s runs before %s has synced", p.name, s.name)
		} else {
			assert.True(w.t, s.starts > 0 || s.removed, "%s runs before %s has started", p.name, s.name)
		}
	}
	p.runs++
	p.starts++
	l, leads := leaderelect.FromContext(ctx)
	if !isLeader(p) {
		assert.False(w.t, leads, "%s belongs to a term", p.name)
		return
	}
	assert.True(w.t, leads && l.Err() == nil, "%s runs without leadership", p.name)
	p.term, w.led = l.Term(), l.Term()
	assert.NotEqual(w.t, p.term, w.hooked, "%s runs after BeforeRelease of its term", p.name)
	for _, other := range w.parts {
		assert.True(w.t, !isLeader(other) || other.runs == 0 || other.term == p.term, "%s runs in another term than %s", other.name, p.name)
	}
}

// checkEnd checks that the context of p ends in the right order. It returns true if p ignores that.
func (p *managed) checkEnd(ctx context.Context) (stuck bool) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	late := errors.Is(context.Cause(ctx), manager.ErrSyncTimeout)
	switch {
	case p.removed && !p.neededLocked() || late:
	case p.kind == "informer" && !p.listed && !p.neededLocked():
		p.removed = true // as the parts that needed it are
	case p.stage == manager.Outer:
		assert.True(w.t, w.stopping, "%s is stopped without a reason", p.name)
		assert.Zero(w.t, w.countLocked(isController)-w.countLocked(isLeftController), "%s is stopped before the controllers have ended", p.name)
		assert.Zero(w.t, w.unreleased, "%s is stopped before the lease is released", p.name)
	}
	l, leads := leaderelect.FromContext(ctx)
	if p.stage == manager.Outer && w.stopping && len(w.stuck) > 0 && p.lasts >= 3*time.Second {
		w.slow++ // its context ends after the limit
	} else if p.lastErr != nil && !p.removed && w.stopping && !late && !(leads && l.Err() != nil) {
		w.expected = append(w.expected, p.name)
	}
	if p.stuck && w.stopping && !p.removed && !late {
		p.left = true
		w.stuck = append(w.stuck, p.name)
	}
	return p.left
}

func (p *managed) end() {
	p.w.locked(func() { p.runs-- })
}

// hook is BeforeRelease.
func (w *managedWorld) hook(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, leads := leaderelect.FromContext(ctx)
	assert.True(w.t, leads && l.Err() == nil, "BeforeRelease is called without leadership")
	assert.Zero(w.t, w.countLocked(isLeader), "BeforeRelease is called before the controllers have ended")
	if w.stopping {
		assert.Zero(w.t, w.countLocked(isController), "BeforeRelease is called before all controllers have ended")
	}
	assert.NotEqual(w.t, w.hooked, l.Term(), "BeforeRelease is called twice in a term")
	w.hooked = l.Term()
	if !w.leases.off.Load() {
		w.unreleased = l.Term()
	}
	return nil
}

// failLocked notes that p fails.
func (w *managedWorld) failLocked(p *managed) {
	if w.stops && !w.stopping && !p.removed {
		w.stopping = true
		w.expected = append(w.expected, p.name)
	}
}

// dropLocked says that p is on its way out, with the informers that only it needs. It returns what they may say.
func (w *managedWorld) dropLocked(p *managed) (lastErrs []error) {
	p.listed = false
	if p.kind == "informer" && p.neededLocked() {
		return nil
	}
	p.removed = true
	for _, q := range append([]*managed{p}, p.informers...) {
		if q.lastErr != nil {
			lastErrs = append(lastErrs, q.lastErr)
		}
		if q.runs > 0 && (q == p || !q.listed && !q.neededLocked()) { // Run no longer returns it
			w.expected = slices.DeleteFunc(w.expected, func(name string) bool { return name == q.name })
		}
	}
	return lastErrs
}

// sweepLocked forgets what is removed and has ended.
func (w *managedWorld) sweepLocked() {
	var kept []*managed
	for _, p := range w.parts {
		if p.kind == "informer" && !p.listed && !p.neededLocked() && p.runs == 0 {
			p.removed = true // before it has begun
		}
		if !p.removed || p.runs > 0 {
			kept = append(kept, p)
		}
	}
	w.parts = kept
}

// newPart returns a part with random habits, and adds it to the model, with the informers that are new with it. A part of stage
// Outer may be an informer. Others list some informers, of their own or not.
func (w *managedWorld) newPart(stage manager.Stage, other bool) (p *managed, fresh []*managed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stage == manager.Outer && !other {
		p = w.newManagedLocked("informer", stage)
		p.listed = true
		return p, nil
	}
	var informers []*managed
	if stage != manager.Outer {
		for _, s := range w.parts {
			if s.kind == "informer" && !s.removed && (s.listed || s.neededLocked()) && w.rand.IntN(4) == 0 {
				informers = append(informers, s)
			}
		}
		for w.rand.IntN(3) == 0 {
			fresh = append(fresh, w.newManagedLocked("informer", manager.Outer))
		}
	}
	p = w.newManagedLocked("part", stage)
	p.listed, p.informers = true, append(informers, fresh...)
	return p, fresh
}

// newManagedLocked returns what a part and an informer have in common.
func (w *managedWorld) newManagedLocked(kind string, stage manager.Stage) *managed {
	r := w.rand
	p := &managed{
		w: w, kind: kind, stage: stage, name: fmt.Sprint(kind, " ", w.added),
		ready: make(chan struct{}), fail: make(chan func() error),
	}
	w.added++
	if r.IntN(3) == 0 {
		p.syncAfter = time.Duration(r.IntN(150)) * time.Second // the limit is 120 s
	}
	if r.IntN(3) == 0 {
		p.lasts = time.Duration(r.IntN(20_000)) * time.Millisecond
	}
	if r.IntN(4) == 0 {
		p.lastErr = fmt.Errorf("lastErr of %s", p.name)
	}
	if p.lastErr == nil {
		p.stuck = r.IntN(12) == 0
	}
	for _, s := range w.parts {
		if s.stage < stage {
			p.needs = append(p.needs, s)
		}
	}
	w.parts = append(w.parts, p)
	return p
}

// failSome makes a part that runs fail, in one of the ways.
func (w *managedWorld) failSome() {
	var p *managed
	var way int
	w.locked(func() {
		var running []*managed
		for _, p := range w.parts {
			if p.runs > 0 && !p.removed && !w.stopping {
				running = append(running, p)
			}
		}
		if len(running) > 0 {
			p = running[w.rand.IntN(len(running))]
		}
		way = w.rand.IntN(4)
	})
	if p == nil {
		return
	}
	ways := []func() error{
		func() error { return errBoom },
		func() error { return nil },
		func() error { panic("oh") },
		func() error { runtime.Goexit(); return nil },
	}
	select {
	case p.fail <- ways[way]:
	default: // its context has ended
	}
}

// setCut cuts the store off, or mends it.
func (w *managedWorld) setCut(off bool) {
	w.leases.off.Store(off)
	w.locked(func() { w.unreleased = 0 })
}

// checkUpdate checks when a lease is released.
func (w *managedWorld) checkUpdate(e *leaderelect.Entry) {
	if !releases(e) {
		return
	}
	w.locked(func() {
		assert.Zero(w.t, w.countLocked(isLeader), "the lease is released before the controllers have ended")
		assert.True(w.t, w.hooked == e.Term || w.led != e.Term || len(w.stuck) > 0, "the lease is released before BeforeRelease")
		w.unreleased = 0
	})
}
