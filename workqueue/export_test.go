package workqueue

import (
	"errors"
	"fmt"
	"math"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
)

// CheckInvariants returns what is wrong with the invariants of Queue.mu and of its parts; nil if nothing is.
func (q *Queue[K]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.entries.All()
	return errors.Join(q.checkEntries(), q.entries.Check(), q.line.Check(all), q.schedule.Check(all), q.checkWaiters(),
		q.parked.Check(entry.Parked), q.memory.Check(entry.Remembered), q.busy.Check(entry.Processing))
}

// BeginShutDown is the first step of ShutDown, and EndSome each of the others. EndSome reports whether there are more.
func (q *Queue[K]) BeginShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beginShutDownLocked()
}

func (q *Queue[K]) EndSome() (more bool) { return q.endSome() }

func (q *Queue[K]) checkEntries() error {
	var n [entry.Parked + 1]int
	dirty, quiet := 0, 0
	for e := range q.entries.All() {
		k := e.Key
		n[e.State]++
		switch {
		case e.State == entry.Resting && !e.IsScheduled():
			return fmt.Errorf("1: the entry of %v has no reason to be", k)
		case e.State == entry.Remembered && (e.IsScheduled() || e.Failures == 0):
			return fmt.Errorf("1: there is nothing to remember of %v", k)
		case e.Number == 0 || e.Number > q.changes:
			return fmt.Errorf("1: the number of %v is %d of %d", k, e.Number, q.changes)
		case e.State == entry.Remembered && e.Priority != 0:
			return fmt.Errorf("1: the priority of %v is remembered", k)
		case (e.Dirty || e.Spent) && e.State != entry.Processing, (e.QuietAt == 0) != (e.QuietBy == 0),
			(e.State == entry.Ready || e.Dirty) && (e.RetryAt != 0 || e.QuietAt != 0), e.State == entry.Parked && e.RetryAt != 0:
			return fmt.Errorf("3: %+v, %+v", *e, *e.Details)
		}
		quiet += count(e.QuietAt != 0)
		dirty += count(e.Dirty)
	}
	// Each list has only entries of its state, so the numbers tell whether it has all of them.
	for state, listed := range [...]int{
		entry.Ready: q.line.Len(), entry.Parked: q.parked.Len(), entry.Remembered: q.memory.Len(), entry.Processing: q.busy.Len(),
	} {
		if s := entry.State(state); listed != n[s] && s != entry.Resting && (s != entry.Processing || q.cfg.Timestamps) {
			return fmt.Errorf("2: %d in the list of state %d, %d in that state", listed, state, n[state])
		}
	}
	if n[entry.Processing] != q.inProcess || dirty != q.dirty || quiet != q.quiet {
		return fmt.Errorf("4: %d in process, counted %d; %d dirty, counted %d; %d in their quiet time, counted %d",
			n[entry.Processing], q.inProcess, dirty, q.dirty, quiet, q.quiet)
	}
	if q.last != nil && (q.last.State != entry.Processing || q.entries.Get(q.last.Key) != q.last) {
		return fmt.Errorf("9: the last that was handed out is %+v", *q.last)
	}
	return nil
}

func (q *Queue[K]) checkWaiters() error {
	if q.shutdown && (!q.waiters.Empty() && q.line.Len()+q.dirty == 0 || q.schedule.Len() > 0 || q.timer != nil && q.timer.Stop()) {
		return fmt.Errorf("6, 7: something waits after the shutdown")
	}
	if q.shutdown && q.armedFor != 0 {
		return fmt.Errorf("7: the timer is armed after the shutdown")
	}
	if due := q.firstDue(); due != 0 && !q.shutdown && (q.armedFor == 0 || q.armedFor > due) {
		return fmt.Errorf("7: the timer comes at %d, something is due at %d", q.armedFor, due)
	}
	if q.idle != nil && q.isIdleLocked() {
		return fmt.Errorf("8: somebody waits for an idle queue to be idle")
	}
	return nil
}

func (q *Queue[K]) firstDue() (due int64) {
	if q.memory.Len() > 0 {
		due = q.memory.Head().Since + int64(remember)
	}
	if q.schedule.Len() > 0 && (due == 0 || q.schedule.FirstDue() < due) {
		due = q.schedule.FirstDue()
	}
	if due == math.MaxInt64 {
		return 0
	}
	return due
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Kept returns the number of entries, groups, slots and map cells that the queue holds memory for.
func (q *Queue[K]) Kept() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.entries.Kept(), q.line.Kept(), q.schedule.Kept())
}

// Known returns the number of keys that the limiter remembers.
func (r *ItemExponentialFailureRateLimiter[K]) Known() int { return r.failures.known() }

// Known returns the number of keys that the limiter remembers.
func (r *ItemJitteredRateLimiter[K]) Known() int { return r.failures.known() }

// Known returns the number of keys that the limiter remembers.
func (r *ItemFastSlowRateLimiter[K]) Known() int { return r.failures.known() }

func (c *counter[K]) known() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts) + len(c.older)
}

// Levels returns the number of levels, with those that are empty.
func (q *Queue[K]) Levels() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line.Levels()
}
