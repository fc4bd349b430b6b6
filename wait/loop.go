package wait

import (
	"context"
	"time"
)

// Pace says from where a loop measures its interval.
type Pace bool

const (
	Sliding    Pace = true  // from the end of a run to the start of the next
	NonSliding Pace = false // from start to start; a run that takes longer is followed at once by the next
)

// Until runs f, waits for period, runs f, and so on until ctx ends. It returns nil then, or a [*PanicError] if f panics,
// which ends the loop; f can go on after its own panics by running under [Call].
func Until(ctx context.Context, period time.Duration, f func(context.Context)) error {
	return JitterUntil(ctx, period, 0, Sliding, f)
}

// NonSlidingUntil is [Until], but the runs start at multiples of period: their own time is part of it. A run that takes
// longer is followed at once by one other, however many it has missed, and the next is back on the grid.
func NonSlidingUntil(ctx context.Context, period time.Duration, f func(context.Context)) error {
	return JitterUntil(ctx, period, 0, NonSliding, f)
}

// JitterUntil is the general form of [Until] and [NonSlidingUntil]: each interval is drawn from
// [period, period*(1+jitter)], so that many processes that do the same do not do it at the same time.
func JitterUntil(ctx context.Context, period time.Duration, jitter float64, pace Pace, f func(context.Context)) error {
	return BackoffUntil(ctx, Backoff{Duration: period, Jitter: jitter}, pace, func(ctx context.Context) error {
		f(ctx)
		return nil
	})
}

// BackoffUntil runs f again and again, and less and less often while it fails: b.Delay(0) after a success and after the
// first failure, b.Delay(n-1) after the n-th failure in a row. It returns
//
//   - nil when ctx ends;
//   - the error of f that is the b.Steps-th in a row; never if Steps is 0;
//   - a [*PanicError] when f panics, whatever Steps is.
//
// Other errors of f count and are dropped: f reports them itself. An f that has done useful work for a long time before it
// fails should return nil, so that its failure is the first and not one more.
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
	due  time.Time // when the present run was to start
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
			r.due = r.due.Add(late - late%interval) // the rounds that were missed are one, which is due now
		}
	}
	return Sleep(ctx, r.due.Sub(now))
}
