package workqueue

import (
	"slices"
	"time"
)

// AddOptions says how [Queue.AddWith] adds a key. The zero value is Add.
type AddOptions struct {
	// After delays the addition. A negative delay means now. At most one of After and At may be set.
	After time.Duration

	// At is the time of the addition. A time in the past means now.
	At time.Time

	// RateLimited reports a failed attempt, as AddRateLimited does. After or At then sets the backoff, for example because the service that
	// failed said when to try again. If neither is set, Config.RateLimiter computes the delay. The failure counts either way, and parks the
	// key if it was the last attempt.
	RateLimited bool

	// Replace lets the time of this addition replace the wake-up of the key, or with RateLimited its backoff, even if that is earlier. Without
	// it, the earlier of the two stands.
	Replace bool

	// Priority is the priority of the key. Keys of higher priority leave first. A key keeps its priority until it leaves the queue for
	// good, and of two priorities the higher counts. Add has priority 0. AddAfter, AddRateLimited, and AddWith with a delay or RateLimited
	// have none unless it is set, so a retry does not change the priority:
	//
	//	state of the key                   Add, or a priority p  a delay without p  a delay with p  p and PrioritySet
	//	----------------                   --------------------  -----------------  --------------  -----------------
	//	absent, without a deadline         p                     0                  p               p
	//	absent with one, ready, or parked  the higher            same               the higher      the higher
	//	process, not added since           the higher            same               the higher      p
	//	process, added since, or dirty     the higher            same               the higher      the higher
	//
	// A ready key whose priority rises moves to the place it would have if it had become ready with that priority. The cost of a dispatch
	// grows with the number of priorities in use, so use few.
	Priority int

	// PrioritySet says that Priority is meant even if it is 0 and the addition has a delay. If the key is in process, and this is the first
	// addition with a priority since its dispatch, Priority also replaces the priority of that dispatch, even a higher one: whoever works on
	// a key can say how urgent it is from now on.
	PrioritySet bool

	// Group is the name of the group of the key, instead of that of Config.Group: for example, of whoever has changed something, so that the many
	// changes of a bulk job do not delay those of others. A key keeps its group until it leaves the queue for good, or is added with another one.
	// If it is ready or dirty then, it changes its group only if fewer keys of the other one are ready, and moves to its place by age among them. So
	// a bulk job does not pull the keys of others into its line. If Group is empty, the key keeps its group, and a new key has that of
	// Config.Group. AddWith panics if both Group and Config.GroupLimit are set.
	Group string

	// Reason is why the key was added, for people. Snapshot and Item show it. The queue keeps the last 8 reasons of a key.
	Reason string

	// Reasons are older than Reason, and keep their times. They are for a key that comes from elsewhere: from another queue, for example.
	// Those that the queue has already are not repeated.
	Reasons []Reason
}

// Add makes key ready. A ready key stays where it is in line. A key in process becomes ready again when it is done. A parked key is
// revived with a whole budget. With Config.Debounce, Add takes effect when the quiet time of the key ends. After a shutdown, Add does
// nothing. Add panics if key is not equal to itself (a NaN) or not comparable (an interface that holds a slice). The queue could never
// find such a key again.
func (q *Queue[K]) Add(key K) {
	checkKey(key)
	hash, group := q.entries.hash(key), q.groupOf(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return
	}
	e := q.entryLocked(key, hash, group)
	if e.state == Ready && e.priority >= 0 { // the most common case needs no more than this
		q.mu.Unlock()
		return
	}
	from, raised := 0, false
	if e.priority < 0 || e.state == InProcess {
		from, raised = q.raiseLocked(e, 0, false)
	}
	w, added := q.addLocked(e)
	priority := e.priority
	q.mu.Unlock()
	w.wake()
	if raised || added && q.cfg.Hooks.Added != nil {
		q.report(key, priority, added, from, raised)
	}
}

// report calls the hooks for an addition that has made key ready or dirty, or has raised its priority while it was either.
func (q *Queue[K]) report(key K, priority int, added bool, from int, raised bool) {
	if raised && q.cfg.Hooks.Raised != nil {
		q.cfg.Hooks.Raised(key, from, priority)
	}
	if added && q.cfg.Hooks.Added != nil {
		q.cfg.Hooks.Added(key, priority)
	}
}

// AddAfter adds key after d. If d is not positive, AddAfter adds it at once, without Config.Debounce. If key already has a wake-up, the
// earlier of the two counts. An Add, an attempt, or a backoff in the meantime does not drop the wake-up. After a shutdown, AddAfter does
// nothing.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	q.add(key, d, delayed, AddOptions{})
}

// AddWith adds key according to opts. It is the general form of Add, AddAfter, and AddRateLimited. It returns false if it does not ask for
// an attempt: after a shutdown, for a failure that spends the budget of key, and for a failure of a parked key. Otherwise it returns true,
// even if key comes back earlier for another reason. It panics if both After and At are set.
func (q *Queue[K]) AddWith(key K, opts AddOptions) bool {
	d, how := opts.After, debounced
	if d != 0 {
		how = delayed
	}
	switch {
	case d != 0 && !opts.At.IsZero():
		panic("workqueue: AddWith: only one of After and At can be set")
	case opts.Group != "" && q.cfg.GroupLimit > 0:
		panic("workqueue: AddWith: Group cannot be set together with Config.GroupLimit")
	case !opts.At.IsZero():
		d, how = time.Until(opts.At), delayed
	}
	if opts.RateLimited {
		return q.fail(key, d, how == delayed, false, opts)
	}
	return q.add(key, d, how, opts)
}

// addKind is how a key is added.
type addKind int

const (
	debounced addKind = iota // takes effect when the quiet time of the key ends
	delayed                  // has a delay, perhaps of zero, and is reported to Hooks.Delayed
	immediate                // takes effect at once
)

// add adds key after d, and reports whether it did.
func (q *Queue[K]) add(key K, d time.Duration, how addKind, opts AddOptions) bool {
	checkKey(key)
	hash, group := q.entries.hash(key), q.groupOf(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	e := q.entryLocked(key, hash, group)
	q.regroupLocked(e, opts.Group)
	q.addReasonsLocked(e, opts)
	from, raised := 0, false
	if d <= 0 || opts.Priority != 0 || opts.PrioritySet {
		from, raised = q.raiseLocked(e, opts.Priority, opts.PrioritySet)
	}
	var w *waiter
	added := false
	switch {
	case d > 0:
		now := q.now()
		if at := later(now, d); opts.Replace || isSooner(at, e.wakeAt) {
			e.wakeAt = at
			q.rescheduleAtLocked(e, now)
		}
	case how == debounced:
		w, added = q.addLocked(e)
	default:
		w, added = q.makeReadyLocked(e)
	}
	if how == delayed {
		q.delayed++
	}
	priority := e.priority
	q.mu.Unlock()
	w.wake()
	if how == delayed && q.cfg.Hooks.Delayed != nil {
		q.cfg.Hooks.Delayed(key, max(d, 0))
	}
	q.report(key, priority, added, from, raised)
	return true
}

// addLocked makes e ready, or starts its quiet time. It returns the worker to wake, if any, and whether e became ready or dirty.
func (q *Queue[K]) addLocked(e *entry[K]) (w *waiter, added bool) {
	if q.cfg.Debounce > 0 && e.state != Ready && !e.dirty {
		q.debounceLocked(e)
		return nil, false
	}
	return q.makeReadyLocked(e)
}

// Cancel undoes every addition of key: key is no longer ready, loses its deadlines, and does not come back when it is done. It reports
// whether there was anything to undo. Work in process continues. The count of failures stays, and a parked key stays parked.
func (q *Queue[K]) Cancel(key K) bool {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.get(key)
	if e == nil {
		q.mu.Unlock()
		return false
	}
	canceled := e.isScheduled() || e.dirty || e.state == Ready
	q.clearDeadlinesLocked(e)
	if e.dirty {
		q.cleanLocked(e)
	}
	if e.state == Ready {
		q.line.remove(e)
		q.enterLocked(e, Delayed)
	}
	if e.addedAt != 0 {
		e.addedAt = 0
	}
	q.settleLocked(e)
	ended := q.waitersToEndLocked()
	idle := q.idleLocked()
	q.mu.Unlock()
	wakeAll(ended)
	announce(idle)
	return canceled
}

// raiseLocked gives e the priority of an addition, unless its own is higher. A new entry has none, and an addition whose priority is set ends
// that of the latest dispatch. It reports the change of a ready or dirty entry.
func (q *Queue[K]) raiseLocked(e *entry[K], priority int, set bool) (from int, raised bool) {
	begins := e.state == Delayed && !e.isScheduled() || set && e.state == InProcess && !e.dirty && !e.raised
	e.raised = true
	from = e.priority
	if priority == from || priority < from && !begins {
		return from, false
	}
	q.prioritizeLocked()
	q.line.raise(e, priority)
	return from, e.state == Ready || e.dirty
}

// regroupLocked puts e in the group of that name, if it is not empty. A ready or dirty entry changes its group only if that has fewer ready entries.
func (q *Queue[K]) regroupLocked(e *entry[K], name string) {
	if name == "" || e.group != nil && e.group.name == name {
		return
	}
	q.prioritizeLocked()
	q.line.useGroups()
	if g := q.line.groups[name]; g != nil && (e.state == Ready || e.dirty) && q.line.ready(g) >= q.line.ready(e.group) {
		return
	}
	q.line.regroup(e, name)
}

// prioritizeLocked sorts the line by priority, starting with the first use of a priority. Without Timestamps, the keys in line count as ready
// since now.
func (q *Queue[K]) prioritizeLocked() {
	if q.line.prioritized() {
		return
	}
	var since int64
	if !q.cfg.Timestamps {
		since = q.now()
	}
	q.line.prioritize(since, q.dirty)
}

// Reason is why a key was added, and when.
type Reason struct {
	Text string
	At   time.Time
}

// String returns the text of r and its time, as in "a page was edited, at 15:04:05".
func (r Reason) String() string { return r.Text + ", at " + r.At.Format(time.TimeOnly) }

// addReasonsLocked records why e is added.
func (q *Queue[K]) addReasonsLocked(e *entry[K], opts AddOptions) {
	for _, r := range opts.Reasons {
		if !slices.Contains(e.reasons.list(), r) {
			q.reasonsLocked(e).add(r)
		}
	}
	if opts.Reason != "" {
		q.reasonsLocked(e).add(Reason{opts.Reason, time.Now()})
	}
}

// reasonsLocked returns the reasons of e, to be changed.
func (q *Queue[K]) reasonsLocked(e *entry[K]) *reasons {
	details := q.entries.edit(e)
	if details.reasons == nil {
		details.reasons = new(reasons)
	}
	return details.reasons
}
