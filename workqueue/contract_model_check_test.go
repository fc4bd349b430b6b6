package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/workqueue"
)

// check compares all that can be seen after a call.
func (r *contractRun) check(did move) error {
	got, want := r.q.Snapshot(), r.m.snapshot()
	for i := range got {
		got[i].Reasons = nil // those that Run notes, which the model does not know
	}
	if r.m.shutdown { // what was forgotten together by the shutdown is in no order
		for _, infos := range [][]workqueue.KeyInfo[int]{got, want} {
			slices.SortStableFunc(infos, func(a, b workqueue.KeyInfo[int]) int {
				if a.State == workqueue.Remembered && b.State == workqueue.Remembered {
					return a.Key - b.Key
				}
				return int(a.State) - int(b.State)
			})
		}
	}
	if !slices.EqualFunc(got, want, sameInfo) {
		return errors.New("snapshot: " + gocmp.Diff(want, got, gocmp.Comparer(time.Time.Equal)))
	}
	stats := counted(want)
	parked := []int{}
	for _, info := range want {
		switch {
		case info.State == workqueue.InProcess && r.m.cfg.Timestamps:
			stats.Unfinished += time.Since(info.Since)
			stats.LongestRunning = max(stats.LongestRunning, time.Since(info.Since))
		case info.State == workqueue.Parked:
			parked = append(parked, info.Key)
		}
		if n := r.q.NumRequeues(info.Key); n != info.Failures {
			return fmt.Errorf("%d requeues of %d, want %d", n, info.Key, info.Failures)
		}
	}
	switch {
	case r.q.Stats() != stats:
		return fmt.Errorf("stats %+v, want %+v", r.q.Stats(), stats)
	case r.q.Len() != stats.Ready:
		return fmt.Errorf("length %d, want %d", r.q.Len(), stats.Ready)
	case !slices.Equal(r.q.Parked(), parked):
		return fmt.Errorf("parked %v, want %v", r.q.Parked(), parked)
	case !slices.Equal(r.told, r.m.told):
		return fmt.Errorf("the hooks were told %v, want %v", r.told, r.m.told)
	}
	r.told, r.m.told = nil, nil
	return errors.Join(r.checkWaits(stats), r.keepsPromises(did, got), r.q.CheckInvariants())
}

// checkWaits checks who is told that the queue is idle or over.
func (r *contractRun) checkWaits(stats workqueue.Stats) error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.q.WaitIdle(ended); (err == nil) != r.m.idle() {
		return fmt.Errorf("idle: %v, want %v", err, r.m.idle())
	}
	if k, err := r.q.Next(ended); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("Next with an ended context: %v, %w", k, err)
	}
	if !r.m.shutdown || stats.Ready > 0 {
		return nil // it would wait, or take a key
	}
	if err := r.q.Drain(ended); (err == nil) != r.m.idle() {
		return fmt.Errorf("drain: %v, want %v", err, r.m.idle())
	}
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan error, 1)
	go func() { _, err := r.q.Next(ctx); told <- err }()
	synctest.Wait()
	over := len(told) > 0
	cancel()
	if err := <-told; over != r.m.over() || over && !errors.Is(err, workqueue.ErrShutDown) {
		return fmt.Errorf("Next after the shutdown: %w, told %v, want %v", err, over, r.m.over())
	}
	return nil
}

// sameInfo reports whether a and b, which have no reasons, are equal.
func sameInfo(a, b workqueue.KeyInfo[int]) bool {
	return a.Key == b.Key && a.State == b.State && a.Dirty == b.Dirty && a.Priority == b.Priority && a.Group == b.Group &&
		a.Failures == b.Failures && len(a.Reasons) == len(b.Reasons) && a.Since.Equal(b.Since) && a.Next.Equal(b.Next) &&
		a.Calm.Equal(b.Calm) && a.FirstFailure.Equal(b.FirstFailure)
}

// keepsPromises checks, without the model, that a deadline that was asked for stands until it is due, and has its effect then,
// or ends for a reason that the contract names.
func (r *contractRun) keepsPromises(did move, infos []workqueue.KeyInfo[int]) error {
	now := time.Now()
	for k := range 4 {
		var info workqueue.KeyInfo[int]
		if i := slices.IndexFunc(infos, func(info workqueue.KeyInfo[int]) bool { return info.Key == k }); i >= 0 {
			info = infos[i]
		}
		p := r.promises[k]
		d, asked := r.delayed[k]
		tried := info.State == workqueue.Ready || info.Dirty
		failed := did.key == k && strings.HasPrefix(did.name, "AddRateLimited")
		switch {
		case did.name == "ShutDown", did.key == k && did.name == "Cancel":
			p = promises{}
		case failed && !asked, did.key == k && strings.HasPrefix(did.name, "Forget"): // the budget is spent, or whole again
			p.retry = time.Time{}
		case failed && d > 0:
			p.retry = chosen(did.policy, p.retry, now.Add(d))
		case asked && d > 0:
			p.wake = chosen(did.policy, p.wake, now.Add(d))
		}
		for _, at := range []*time.Time{&p.wake, &p.retry} {
			if !at.IsZero() && !now.Before(*at) {
				if !tried {
					return fmt.Errorf("%d is due, and is not ready: %+v", k, info)
				}
				*at = time.Time{}
			}
		}
		if tried {
			p.retry = time.Time{}
		}
		want := p.wake
		if want.IsZero() || !p.retry.IsZero() && p.retry.Before(want) {
			want = p.retry
		}
		if !info.Next.Equal(want) {
			return fmt.Errorf("after %+v %d is to be added at %v, asked for was %+v: %+v", did, k, info.Next, p, info)
		}
		r.promises[k] = p
	}
	clear(r.delayed)
	return nil
}

// chosen returns which of two times counts; an old one of zero is none.
func chosen(policy workqueue.Policy, old, fresh time.Time) time.Time {
	if old.IsZero() || policy == workqueue.Replace || policy == workqueue.Earliest && fresh.Before(old) ||
		policy == workqueue.Latest && fresh.After(old) {
		return fresh
	}
	return old
}
