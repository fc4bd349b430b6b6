package wait

import (
	"context"
	"time"
)

// Pace is the moment from which a loop measures its interval.
type Pace bool

const (
	Sliding    Pace = true  // from the end of a run to the start of the next
	NonSliding Pace = false // from start to start; after a run that takes longer, the next run starts at once
)

// Until runs f, waits for period, runs f again, and so on until ctx ends; then it returns nil. If period is 0 or negative, the
// runs follow each other without a pause. If f panics, Until returns a [*PanicError]. To continue after a panic, run the body of
// f under [Call].
func Until(ctx context.Context, period time.Duration, f func(context.Context)) error {
	return JitterUntil(ctx, period, 0, Sliding, f)
}

// NonSlidingUntil is [Until] with runs that start at multiples of period, however long each run takes. After a run that takes
// longer than period, one run starts at once, however many were missed. The run after that is back on the grid.
func NonSlidingUntil(ctx context.Context, period time.Duration, f func(context.Context)) error {
	return JitterUntil(ctx, period, 0, NonSliding, f)
}

// JitterUntil is the general form of [Until] and [NonSlidingUntil]. Each interval is a random one in
// [period, period*(1+jitter)], so that many processes do not act at the same time.
func JitterUntil(ctx context.Context, period time.Duration, jitter float64, pace Pace, f func(context.Context)) error {
	return BackoffUntil(ctx, Backoff{Duration: period, Jitter: jitter}, pace, func(ctx context.Context) error {
		f(ctx)
		return nil
	})
}

// BackoffUntil runs f repeatedly, and less often while f fails. After a success and after the first failure it waits for
// b.Delay(0), after the n-th consecutive failure for b.Delay(n-1). It returns
//
//   - nil when ctx ends;
//   - the error of f after b.Steps consecutive failures, unless Steps is 0 or negative;
//   - a [*PanicError] when f panics, whatever Steps is.
//
// It counts the other errors of f and drops them, so f should report its errors itself. If f worked for a long time before it
// failed, it should return nil. Then the next failure counts as the first.
func BackoffUntil(ctx context.Context, b Backoff, pace Pace, f func(context.Context) error) error {
	r := rhythm{due: time.Now(), pace: pace}
	delay, failures := time.Duration(0), 0
	for r.next(ctx, delay) == nil {
		panicked, err := try(ctx, f)
		if panicked != nil {
			return panicked
		}
		if err == nil {
			failures = 0
			delay = b.Delay(0)
			continue
		}
		failures++
		if failures == b.Steps && ended(ctx) == nil {
			return err
		}
		delay = b.Delay(failures - 1)
	}
	return nil
}

// rhythm says when the next run of a loop is due.
type rhythm struct {
	due  time.Time // when the current run was due
	pace Pace
}

// next waits until the next run, one interval after this. It returns an error when ctx has ended.
func (r *rhythm) next(ctx context.Context, interval time.Duration) error {
	now := time.Now()
	if r.pace == Sliding || interval <= 0 {
		r.due = now.Add(interval)
	} else {
		r.due = r.due.Add(interval)
		if late := now.Sub(r.due); late > 0 {
			r.due = r.due.Add(late - late%interval) // all missed rounds together become one, which is due now
		}
	}
	return Sleep(ctx, r.due.Sub(now))
}
