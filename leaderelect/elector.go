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

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Elector competes for one lease, and runs the work of the leader while it holds the lease. The package documentation has
// the guarantees.
//
// [Elector.Run] competes again after a loss. [Elector.RunOnce] leads for at most one term, as client-go does.
//
// All methods may be called concurrently, even while the elector is not running.
type Elector struct {
	cfg         Config
	log         *slog.Logger
	incarnation string        // random: distinguishes electors of one identity
	headStart   time.Duration // how long it leaves the lease to a preferred successor
	link        *lease.Link   // Config.Link, or an empty one

	calls lease.Calls
	wake  chan struct{} // capacity 1; the code that changes outUntil sends, the goroutine of Run receives, never closed

	mu sync.Mutex
	// mu guards the following.
	running   bool
	current   *Leadership   // from its acquisition until its callbacks have returned; else nil
	ending    *Leadership   // from then until the lease is released or kept; else nil
	leader    *Leader       // the leader in the record that was read last; nil if there is none
	barred    bool          // the elector does not take the lease until it is admitted
	outUntil  time.Time     // the elector does not take the lease before this time
	outFor    time.Duration // how long it stays out after it has resigned
	successor string        // the elector for which it resigned last; "" is any
	watch     *recordWatch  // of this run; nil if the store cannot watch
	terms     uint64        // how many have begun
	lost      uint64        // how many of them were lost
	health    health        // of the store, in this run or the last one

	// The following belong to the goroutine of Run. They keep their values between two runs.

	warnings      *lease.Warnings
	callbacks     *callbacks
	working       sync.WaitGroup // the work of a term, with its callbacks
	prior         observation    // the record, as it was observed before the first read; zero if it was not
	newest        lease.Seen
	refused       error // set if the record is not a lease, so that this elector must not take it, or if the store cannot work
	attempts      lease.Attempts
	ourTerm       uint64          // the last term for which this elector has written the record; 0 after another has
	lastTerm      uint64          // the last term of this elector that must not begin, or not again
	created       uint64          // the term of a Create whose reply may be lost; 0 if there is none
	floor         uint64          // terms begin here, because the record was created again
	session       *sessionHolder  // of this run; nil without Config.Sessions
	leaderSession *sessionWatcher // the same
	notEarly      time.Time       // until then, no lease is taken before it has expired
}

// Leader describes the leader in a record.
type Leader struct {
	Identity    string            // Config.Identity of the leader
	Incarnation string            // random: distinguishes electors of one identity
	Term        uint64            // the fencing token of this leadership
	Metadata    map[string]string // Config.Metadata of the leader

	// Since is the time at which this leadership began, by the clock of the leader. It is for people.
	Since time.Time
}

// New returns an elector. The error names each field of cfg that is out of its bounds.
func New(cfg Config) (*Elector, error) {
	if err := cfg.validate("Config"); err != nil {
		return nil, fmt.Errorf("leaderelect: new elector: %w", err)
	}
	cfg = cfg.withDefaults()
	log := cfg.Logger.With("lease", cfg.Key, "identity", cfg.Identity)
	e := &Elector{cfg: cfg, log: log, warnings: lease.NewWarnings(log), wake: make(chan struct{}, 1)}
	e.link = cmp.Or(cfg.Link, new(lease.Link))
	e.incarnation = cmp.Or(e.link.Incarnation, rand.Text())
	e.headStart = time.Duration(cmp.Or(e.link.HeadStart, headStart)) * cfg.RetryPeriod
	e.prior = observation{Observation: e.link.Prior}
	e.link.Timing = lease.Timing{
		LeaseDuration: cfg.LeaseDuration, RetryPeriod: cfg.RetryPeriod,
		RequestTimeout: cfg.RequestTimeout, DrainTimeout: cfg.DrainTimeout,
	}
	e.link.Log, e.link.Poll = log, e.pollPeriod
	e.link.Revoke, e.link.Admit, e.link.Check = e.revoke, e.admit, e.check
	return e, nil
}

// Run competes for the lease until ctx ends. While this elector leads, the work runs. When the term is over and the work
// has returned, the elector competes again. If the work returned by itself, the elector waits for two RetryPeriods first,
// so that others have a chance.
//
// After ctx ends, Run waits for the work, releases the lease if ReleaseOnCancel is set, and returns nil. If the store
// hangs, Run waits at most RequestTimeout for a write in flight, and as long for the release. At the end it waits for calls
// of the store whose contexts have ended: for 5 s, or for RequestTimeout if that is longer. If calls are left after that, the
// error wraps ErrStoreStuck. If the elector is running already, Run returns ErrRunning at once. If the record is that of the
// slots of package shard, the error wraps ErrMismatch. Run may be called again after it has returned.
//
// If the store cannot work, because its table is missing or the role has no privilege, Run returns the error of the first
// read or claim at once. The store marks such an error with retry.Permanent. After a read has had a reply in this Run, Run
// survives such errors of reads, and after a write has, such errors of writes: it logs them, as in an outage.
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

// RunOnce is like Run, but returns after one term, or when ctx ends before that. If the lease was lost, even in a drain after
// ctx has ended, the error wraps the reason. It also wraps the error of the work, unless that only repeats why its context
// ended. Otherwise RunOnce returns nil.
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

// IsLeader reports whether this elector may act as the leader now. Like [Leadership.Err], it reads the clock.
func (e *Elector) IsLeader() bool {
	l := e.leadership()
	return l != nil && l.Err() == nil
}

// Leader returns the leader in the record that was read last. It returns false if nothing has been read yet, if the lease was
// released, or if there is no record. A leader that has crashed is returned until another one takes over.
func (e *Elector) Leader() (Leader, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leader == nil {
		return Leader{}, false
	}
	l := *e.leader
	l.Metadata = maps.Clone(l.Metadata)
	return l, true
}

// Check returns an error if one of these problems lasts for longer than LeaseDuration:
//
//   - The lease is lost, and the work still runs. This process should end. The time counts from the last renewal.
//   - The elector leads, but the work has returned and OnStoppedLeading has not. The lease is held for nothing.
//   - In the present Run, the store has never answered a read, or answers reads and no writes: a firewall drops everything,
//     or the disk is full. An outage of a store that has worked before is not reported.
//
// Check is for a liveness probe.
func (e *Elector) Check() error {
	leadership, store := e.check()
	if err := cmp.Or(leadership, store); err != nil {
		return fmt.Errorf("leaderelect: check %q: %w", e.cfg.Key, err)
	}
	return nil
}

// check returns the error of the leadership and the error of the store.
func (e *Elector) check() (leadership, store error) {
	leadership = e.checkLeadership()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		store = e.health.check(e.cfg.LeaseDuration)
	}
	return leadership, store
}

// checkLeadership is Check of the current leadership, if there is one.
func (e *Elector) checkLeadership() error {
	l := e.leadership()
	if l == nil {
		return nil
	}
	age := time.Since(l.Deadline().Add(-e.cfg.RenewDeadline))
	if age > e.cfg.LeaseDuration {
		return fmt.Errorf("failed to renew leadership for %s and the work continues", age)
	}
	if returned := l.returnedAt(); !returned.IsZero() && time.Since(returned) > e.cfg.LeaseDuration {
		return fmt.Errorf("the work of term %d has returned and OnStoppedLeading has not for %s", l.term, time.Since(returned))
	}
	return nil
}

// run starts what a run needs, calls f, and cleans up.
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
	e.session, e.leaderSession = e.startSessionHolder(ctx), e.startSessionWatcher(ctx)
	defer func() { // also after a panic, which only a Logger can cause
		if left := e.cleanUp(watch); left != nil {
			err = errors.Join(err, left)
		}
	}()
	e.session.await(ctx, e.cfg.RetryPeriod)
	return f()
}

// cleanUp ends everything that run has started. It returns an error that wraps ErrStoreStuck if a call does not end.
func (e *Elector) cleanUp(watch *recordWatch) error {
	e.mu.Lock()
	l := cmp.Or(e.current, e.ending)
	e.mu.Unlock()
	if l != nil { // f has panicked
		l.end(ErrTermEnded)
		e.working.Wait()
		e.setEnding(l)
		e.setEnded(l)
	}
	e.callbacks.stop()
	e.setWatch(nil)
	session, leaderSession := e.session, e.leaderSession
	settle := func(timeout time.Duration) error { return e.settle(watch, session, leaderSession, timeout) }
	if e.link.Leave != nil {
		_ = settle(0)
		e.link.Leave(settle)
		return nil
	}
	return settle(e.link.Grace())
}

// settle ends the watch and the sessions of a run. It waits until they and all calls of the store have returned, or
// timeout has passed. It returns an error that wraps ErrStoreStuck if one of them has not.
func (e *Elector) settle(watch *recordWatch, session *sessionHolder, leaderSession *sessionWatcher, timeout time.Duration) error {
	until := time.Now().Add(timeout)
	watch.stop(0) // all are stopped first, so that none uses up the time of another
	session.stop(0)
	leaderSession.stop(0)
	var errs []error
	stuck := func(what string) {
		errs = append(errs, fmt.Errorf("leaderelect: run %q: %s not returned: %w", e.cfg.Key, what, ErrStoreStuck))
	}
	if !watch.stop(time.Until(until)) {
		stuck("a watch has")
	}
	if !session.stop(time.Until(until)) || !leaderSession.stop(time.Until(until)) {
		stuck("calls of Sessions have")
	}
	if left := e.calls.Wait(time.Until(until)); left > 0 {
		stuck(fmt.Sprintf("%d calls have", left))
	}
	return errors.Join(errs...)
}

// leadership returns the current leadership, or nil.
func (e *Elector) leadership() *Leadership {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current
}

// setWatch sets the watch of this run, for Stats.
func (e *Elector) setWatch(w *recordWatch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watch = w
}

// publish updates Leader from a record that was read or written, and calls OnNewLeader if the leadership is new.
func (e *Elector) publish(v lease.View) {
	e.mu.Lock()
	was := e.leader
	e.leader = nil
	if v.Held() {
		l := leaderOf(v.Record)
		e.leader = &l
	}
	e.mu.Unlock()
	if v.Held() && (was == nil || was.Term != v.Record.Term || was.Incarnation != v.Record.Incarnation) {
		e.callbacks.newLeader(leaderOf(v.Record)) // a copy of its own
	}
}

// setCurrent makes l the current leadership. If this elector has resigned since it claimed the lease, l resigns before its
// work begins.
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

// setEnding notes that the callbacks of l have returned. Only Resign still uses l.
func (e *Elector) setEnding(l *Leadership) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current, e.ending = nil, l
}

// setEnded notes that l is over and the lease was released or kept. If l has resigned, the elector stays out.
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

// logEnd logs the end of a term, because no caller receives its error.
func (e *Elector) logEnd(ctx context.Context, term uint64, out outcome) {
	if err := out.err(); err != nil {
		e.log.WarnContext(ctx, "leadership ended", "term", term, "error", err)
		return
	}
	e.log.InfoContext(ctx, "leadership ended", "term", term)
}
