package leaderelect

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/hint"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Elector competes for one lease and runs the work of the leader while it holds it. The package documentation has the
// rules and the guarantees.
//
// [Elector.Run] is for a process that stays: it campaigns again after a loss. [Elector.RunOnce] leads for at most one
// term, as client-go does.
//
// The other methods may be called concurrently, also while nothing runs.
type Elector struct {
	cfg         Config
	log         *slog.Logger
	incarnation string        // random: two electors of one identity are two
	headStart   time.Duration // which it leaves to a preferred successor
	link        *lease.Link   // to the slots of package shard, if this elector is one of theirs; empty if not

	calls lease.Calls
	wake  chan struct{} // capacity 1; who has changed outUntil sends, the goroutine of Run receives, nobody closes

	mu sync.Mutex
	// mu guards the following.
	running   bool
	current   *Leadership   // from its acquisition until its callbacks have returned; else nil
	ending    *Leadership   // from then until it was released, if it is to be; else nil
	leader    Leader        // as it was last seen
	known     bool          // leader is set
	barred    bool          // it does not take the lease, until it is admitted
	outUntil  time.Time     // it does not take the lease before
	outFor    time.Duration // how long it stays out after a term that was resigned
	successor string        // for whom it resigned last; "" is anyone
	watch     *hint.Watch   // of this run; nil if the store cannot watch
	terms     uint64        // that have begun
	lost      uint64        // of them
	health    health        // of the store, in this run or the last one

	// The following belong to the goroutine of Run. Outside of a run they remember the last one.

	warnings  *lease.Warnings
	callbacks *callbacks
	working   sync.WaitGroup // the work of a term, with its callbacks
	prior     observation    // what was known before the first read; zero is nothing
	seen      lease.Seen
	foreign   error // the record is not that of a lease, so this elector must not take it
	attempts  lease.Attempts
	done      uint64         // the last term of ours that must not be led (again)
	created   uint64         // the term of a Create whose reply may be lost; 0 if there is none
	floor     uint64         // terms begin here, because the record was created anew
	presence  *hint.Presence // of this run; nil without Config.Sessions
	notEarly  time.Time      // no lease is taken before its end, until then
}

// Leader is who leads, as the record says.
type Leader struct {
	Identity    string            // Config.Identity of the leader
	Incarnation string            // tells electors of the same identity apart
	Term        uint64            // the fencing token of this leadership
	Metadata    map[string]string // Config.Metadata of the leader
}

// New returns an elector. The error names each field of cfg that is out of its bounds.
func New(cfg Config) (*Elector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate("Config"); err != nil {
		return nil, fmt.Errorf("leaderelect: new elector: %w", err)
	}
	log := cfg.Logger.With("key", cfg.Key, "identity", cfg.Identity)
	e := &Elector{cfg: cfg, log: log, warnings: lease.NewWarnings(log), link: new(lease.Link), wake: make(chan struct{}, 1)}
	if linked, ok := cfg.Store.(lease.Linked); ok {
		e.join(linked.Link())
	}
	e.incarnation = cmp.Or(e.link.Incarnation, rand.Text())
	e.headStart = time.Duration(cmp.Or(e.link.HeadStart, headStart)) * cfg.RetryPeriod
	e.prior = observation{Observation: e.link.Prior}
	return e, nil
}

// join makes e one of the electors of a replica.
func (e *Elector) join(l *lease.Link) {
	l.Timing = lease.Timing{
		LeaseDuration: e.cfg.LeaseDuration, RetryPeriod: e.cfg.RetryPeriod,
		RequestTimeout: e.cfg.RequestTimeout, DrainTimeout: e.cfg.DrainTimeout,
	}
	l.Log, l.Poll = e.log, e.pollPeriod
	l.Revoke, l.Admit, l.Check = e.revoke, e.admit, e.check
	e.link = l
}

// Run competes for the lease until ctx ends. While this elector leads, the work runs; when the term is over and the work
// has returned, it competes again, after work that returned by itself only when others had a chance.
//
// Run returns nil after ctx has ended, the work has returned, and the lease was released if it is to be. It does not
// return before the work does, and waits for a store that hangs at most RequestTimeout for a write under way, for
// the release, and for calls that are left. If calls are left even then, the error wraps ErrStoreStuck. It is ErrRunning,
// at once, if the elector is running already. It may be run again after it has returned.
func (e *Elector) Run(ctx context.Context) error {
	return e.run(ctx, func() error {
		for {
			l := e.campaign(ctx)
			if l == nil {
				return e.refusal()
			}
			out := e.lead(ctx, l)
			e.logEnd(ctx, l.term, out)
			if out.byItself() {
				e.stayOut(minStayOut * e.cfg.RetryPeriod)
			}
		}
	})
}

// RunOnce competes for the lease until it has led for one term, or ctx ends. It returns when the work has returned and
// the lease was released if it is to be: nil if ctx has ended or the work returned nil by itself, otherwise an error that
// wraps why the lease was lost and what the work returned, if that says more than why its context ended.
//
// In everything else it is like Run.
func (e *Elector) RunOnce(ctx context.Context) error {
	return e.run(ctx, func() error {
		l := e.campaign(ctx)
		if l == nil {
			return e.refusal()
		}
		if err := e.lead(ctx, l).err(); err != nil {
			return fmt.Errorf("leaderelect: lead %q: %w", e.cfg.Key, err)
		}
		return nil
	})
}

// IsLeader reports whether this elector may act as the leader now. It reads the clock, as [Leadership.Err] does.
func (e *Elector) IsLeader() bool {
	l := e.leadership()
	return l != nil && l.Err() == nil
}

// Leader returns the leader that was last seen, and false if there is none: nothing was read yet, the lease was released,
// or the record is gone. A leader that is dead stays until another takes over.
func (e *Elector) Leader() (Leader, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.leader
	l.Metadata = maps.Clone(l.Metadata)
	return l, e.known
}

// Check returns an error if this elector needs help, for longer than LeaseDuration and the given tolerance:
//
//   - The lease is lost, and the work of the leader still runs. This process should be ended.
//   - It leads, and the work has not begun, or has returned and OnStoppedLeading has not: it holds the lease for nothing.
//   - It runs, and no read of the store was ever answered; or reads are answered and no writes: a directory that cannot
//     be written, or a table that is not there. An outage of a store that has worked is no error.
//
// Check is for a liveness probe.
func (e *Elector) Check(tolerance time.Duration) error {
	own, store := e.check(tolerance)
	if err := cmp.Or(own, store); err != nil {
		return fmt.Errorf("leaderelect: check %q: %w", e.cfg.Key, err)
	}
	return nil
}

// check returns what is wrong with the leadership, and what is wrong with the store.
func (e *Elector) check(tolerance time.Duration) (own, store error) {
	patience := e.cfg.LeaseDuration + tolerance
	own = e.checkLeadership(patience)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		store = e.health.check(patience)
	}
	return own, store
}

// checkLeadership is Check of the leadership that lasts, if there is one.
func (e *Elector) checkLeadership(patience time.Duration) error {
	l := e.leadership()
	if l == nil {
		return nil
	}
	age := time.Since(l.Deadline().Add(-e.cfg.RenewDeadline))
	if age > patience {
		return fmt.Errorf("failed to renew leadership for %s and the work goes on", age)
	}
	switch at, since := l.progress(); {
	case time.Since(since) <= patience:
	case at == workBegins:
		return fmt.Errorf("the leader of term %d has not begun its work for %s", l.term, time.Since(since))
	case at == workReturned:
		return fmt.Errorf("the work of term %d has returned and OnStoppedLeading has not for %s", l.term, time.Since(since))
	}
	return nil
}

// run runs f between the begin and the end of a run.
func (e *Elector) run(ctx context.Context, f func() error) (err error) {
	e.mu.Lock()
	busy := e.running
	if !busy {
		e.running, e.health = true, health{}
	}
	e.mu.Unlock()
	if busy {
		return fmt.Errorf("leaderelect: run %q: %w", e.cfg.Key, ErrRunning)
	}
	defer func() {
		e.mu.Lock()
		e.running = false
		e.mu.Unlock()
	}()

	e.callbacks = startCallbacks(e.log, e.cfg.OnNewLeader)
	watch := e.startWatch(ctx)
	e.setWatch(watch)
	e.presence = e.startPresence(ctx)
	defer func() { // also after a panic, which only a Logger can cause
		if left := e.cleanUp(watch); left != nil {
			err = errors.Join(err, left)
		}
	}()
	e.presence.Await(ctx, e.cfg.RetryPeriod)
	return f()
}

// cleanUp ends all that a run has started. It returns an error that wraps ErrStoreStuck for what it leaves behind.
func (e *Elector) cleanUp(watch *hint.Watch) error {
	e.mu.Lock()
	l := cmp.Or(e.current, e.ending)
	e.mu.Unlock()
	if l != nil { // f did not get to its end
		l.end(ErrTermEnded)
		e.working.Wait()
		e.setEnding(l)
		e.setEnded(l)
	}
	e.callbacks.stop()
	e.setWatch(nil)
	var errs []error
	stuck := func(what string) {
		errs = append(errs, fmt.Errorf("leaderelect: run %q: %s not returned: %w", e.cfg.Key, what, ErrStoreStuck))
	}
	if !watch.Stop(e.cfg.RequestTimeout) {
		stuck("a watch has")
	}
	if !e.presence.Stop(e.cfg.RequestTimeout) {
		stuck("calls of Sessions have")
	}
	if left := e.calls.Wait(e.cfg.RequestTimeout); left > 0 {
		stuck(fmt.Sprintf("%d calls have", left))
	}
	return errors.Join(errs...)
}

// leadership returns the leadership that lasts, or nil.
func (e *Elector) leadership() *Leadership {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current
}

// setWatch sets the watch of this run, for Stats.
func (e *Elector) setWatch(w *hint.Watch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watch = w
}

// publish makes what was read of the record known to others.
func (e *Elector) publish(v lease.View) {
	e.mu.Lock()
	was, wasKnown := e.leader, e.known
	e.leader, e.known = Leader{}, v.Held()
	if e.known {
		e.leader = leaderOf(v.Record)
	}
	is := e.leader
	e.mu.Unlock()
	if v.Held() && (!wasKnown || was.Term != is.Term || was.Incarnation != is.Incarnation) {
		e.callbacks.newLeader(leaderOf(v.Record)) // a copy of its own
	}
}

// setCurrent makes l what IsLeader and Check look at. If this elector has resigned since it claimed the lease, l is over
// before its work begins.
func (e *Elector) setCurrent(l *Leadership) {
	e.mu.Lock()
	out := e.barred || time.Now().Before(e.outUntil)
	e.current = l
	e.terms++
	if !out {
		e.successor = ""
	}
	e.mu.Unlock()
	if out {
		l.resign(e.cfg.DrainTimeout)
	}
}

// setEnding makes l, whose callbacks have returned, what nobody but Resign looks at.
func (e *Elector) setEnding(l *Leadership) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current, e.ending = nil, l
}

// setEnded notes that l was released, if it is to be. It stays out if somebody has resigned from it.
func (e *Elector) setEnded(l *Leadership) {
	e.mu.Lock()
	e.ending = nil
	out := e.outFor
	e.mu.Unlock()
	if l.hasResigned() {
		e.stayOut(out)
	}
	close(l.released)
}

// countLost counts a term that was lost.
func (e *Elector) countLost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost++
}

// logEnd logs the end of a term whose error nobody receives.
func (e *Elector) logEnd(ctx context.Context, term uint64, out outcome) {
	if err := out.err(); err != nil {
		e.log.WarnContext(ctx, "leaderelect: leadership ended", "term", term, "cause", err)
		return
	}
	e.log.InfoContext(ctx, "leaderelect: leadership ended", "term", term)
}
