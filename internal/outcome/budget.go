package outcome

import "time"

// MaxConflicts is how many conflicts in a row do not count. A conflict means that the attempt has read stale data, and the next one most
// likely reads fresh data. Further conflicts are failures.
const MaxConflicts = 8

// ConflictDelay is how long a key waits after its first conflict. It doubles with each conflict in a row.
const ConflictDelay = 5 * time.Millisecond

// Budget limits how often, and for how long, a key is tried before it is parked. A zero limit is none.
type Budget struct {
	Attempts int
	Elapsed  time.Duration // since the first failure, or since the first attempt that did not finish if that was earlier
}

// Spent reports whether a failure is the last one that b allows: with it, this number of failures count, and the first was at this time.
// The zero time means that none counts.
func (b Budget) Spent(failures int, first time.Time, u Unfinished) bool {
	return b.Attempts > 0 && failures >= b.Attempts || b.Elapsed > 0 && b.left(first, u) <= 0
}

// left returns how much of Elapsed is left.
func (b Budget) left(first time.Time, u Unfinished) time.Duration {
	began := first
	if began.IsZero() || !u.since.IsZero() && u.since.Before(began) {
		began = u.since
	}
	if began.IsZero() {
		return b.Elapsed
	}
	return b.Elapsed - time.Since(began)
}

// Unfinished is the record of a key whose attempts neither succeeded nor failed. The zero value is that of any other key.
type Unfinished struct {
	conflicts int       // in a row
	until     time.Time // the end of the wait after the last of them
	since     time.Time // the end of the first attempt that did not finish; zero if its budget has no Elapsed
}

// TooManyConflicts reports whether a conflict is a failure now.
func (u *Unfinished) TooManyConflicts() bool {
	return u.conflicts >= MaxConflicts && !time.Now().Before(u.until)
}

// Continue records an attempt that ended with NotYet or Conflict. It returns how long the key waits: for the delay that the error requests,
// or else, after a conflict, for a delay that doubles. Zero is until an event. With an Elapsed, the wait is limited so that the last attempt
// comes when that is over; Continue returns false if it is over already. first is as for [Budget.Spent].
func (u *Unfinished) Continue(kind Kind, delay time.Duration, b Budget, first time.Time) (wait time.Duration, ok bool) {
	wait = max(delay, 0)
	if kind == Conflict {
		if d := u.conflict(); wait == 0 {
			wait = d
		}
	} else {
		u.endConflicts()
	}
	if b.Elapsed <= 0 {
		return wait, true
	}
	if u.since.IsZero() {
		u.since = time.Now()
	}
	switch left := b.left(first, *u); {
	case left <= 0:
		return 0, false
	case wait == 0 || wait > left:
		return left, true
	}
	return wait, true
}

// conflict records a conflict and returns the wait after it. A conflict in an attempt that an event brings before the end of the wait after
// the last one does not count, and that wait stays.
func (u *Unfinished) conflict() (wait time.Duration) {
	now := time.Now()
	if !now.Before(u.until) {
		u.until = now.Add(ConflictDelay << u.conflicts)
		u.conflicts++
	}
	return u.until.Sub(now)
}

// Fail records a failure. It ends a row of conflicts, unless the failure is one conflict too many.
func (u *Unfinished) Fail(conflict bool) {
	if !conflict {
		u.endConflicts()
	}
}

func (u *Unfinished) endConflicts() { u.conflicts, u.until = 0, time.Time{} }
