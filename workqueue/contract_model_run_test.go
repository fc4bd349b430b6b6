package workqueue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// contractRun plays random calls on a queue and on the model, and watches the wake-ups.
type contractRun struct {
	q        *workqueue.Queue[int]
	m        *contractModel
	random   *rand.Rand
	told     []string // by the hooks of the queue
	delayed  map[int]time.Duration
	promises map[int]promises
	trace    []string
}

// promises are the deadlines of a key that were asked for; the zero time is none.
type promises struct{ wake, retry time.Time }

// move is a call that was made.
type move struct {
	name   string
	key    int
	policy workqueue.Policy
}

func newContractRun(seed uint64) *contractRun {
	r := &contractRun{random: rand.New(rand.NewPCG(seed, 6)), delayed: map[int]time.Duration{}, promises: map[int]promises{}}
	cfg := workqueue.Config[int]{
		MaxAttempts: pick(r, []int{0, 1, 2, 3}),
		MaxElapsed:  pick(r, []time.Duration{0, 0, 10 * time.Millisecond}),
		Debounce:    pick(r, []time.Duration{0, 4 * time.Millisecond}),
		Ageing:      pick(r, []time.Duration{-1, 2 * time.Millisecond}),
		Timestamps:  pick(r, []bool{false, true}),
		Logger:      discard,
		Hooks: workqueue.Hooks[int]{
			Added:     func(k int) { r.told = append(r.told, fmt.Sprint("added ", k)) },
			Parked:    func(k, n int) { r.told = append(r.told, fmt.Sprint("parked ", k, n)) },
			StrayDone: func(k int) { r.told = append(r.told, fmt.Sprint("stray ", k)) },
			Delayed:   func(k int, d time.Duration) { r.delayed[k] = d },
		},
	}
	cfg.DebounceLimit = cfg.Debounce * time.Duration(pick(r, []int{1, 2, 10}))
	if r.random.IntN(2) == 0 {
		cfg.Group = func(k int) string { return fmt.Sprint(k % 2) }
		cfg.GroupLimit = pick(r, []int{0, 1, 2})
	}
	r.m = newContractModel(cfg)
	switch r.random.IntN(6) {
	case 0:
		r.m.backoff = pick(r, []time.Duration{3 * time.Millisecond, -1})
		cfg.RateLimiter = limiterOfInt(r.m.backoff)
	case 1:
		cfg.RateLimiter = workqueue.DefaultControllerRateLimiter[int]()
	case 2:
		cfg.RateLimiter = workqueue.NewMaxOfRateLimiter(
			workqueue.RateLimiter[int](workqueue.DefaultControllerRateLimiter[int]()),
			workqueue.NewWithMaxWaitRateLimiter(workqueue.DefaultItemBasedRateLimiter[int](), time.Millisecond),
		)
	case 3:
		cfg.RateLimiter = newForeign[int]()
		r.m.foreign = map[int]int{}
	}
	r.q = must(workqueue.New(cfg))
	return r
}

func pick[T any](r *contractRun, of []T) T { return of[r.random.IntN(len(of))] }

// step makes a random call.
func (r *contractRun) step(last bool) error {
	const keys = 4
	q, m, k := r.q, r.m, r.random.IntN(keys)
	d := time.Duration(r.random.IntN(8)) * time.Millisecond
	priority := pick(r, []int{0, 0, 0, 1, 2, -1})
	opts := workqueue.AddOptions{Policy: workqueue.Policy(r.random.IntN(3)), Priority: priority}
	same := true
	var did move
	switch n := r.random.IntN(43); {
	case n < 6:
		did = r.call("Add", k, 0)
		q.Add(k)
		m.add(k, 0)
	case n < 8:
		did = r.call(fmt.Sprintf("AddWith, priority %d,", priority), k, 0)
		q.AddWith(k, workqueue.AddOptions{Priority: priority})
		m.add(k, priority)
	case n < 11:
		did = r.call(fmt.Sprintf("AddAfter %v", d), k, 0)
		q.AddAfter(k, d)
		m.addAfter(k, d, 0, 0)
	case n < 13:
		did = r.call(fmt.Sprintf("AddAfter %v, priority %d,", d, priority), k, opts.Policy)
		opts.At = time.Now().Add(d)
		q.AddWith(k, opts)
		m.addAfter(k, d, opts.Policy, priority)
	case n < 17:
		did = r.call("AddRateLimited", k, 0)
		q.AddRateLimited(k)
		m.fail(k, nil, 0, 0)
	case n < 18:
		did = r.call(fmt.Sprintf("AddRateLimited, priority %d,", priority), k, opts.Policy)
		opts.RateLimited = true
		same = q.AddWith(k, opts) == m.fail(k, nil, opts.Policy, priority)
	case n < 20:
		did = r.call(fmt.Sprintf("AddRateLimited %v, priority %d,", d, priority), k, opts.Policy)
		opts.RateLimited = true
		if n == 18 {
			opts.At = time.Now().Add(d)
		} else {
			opts.After = cmp.Or(d, -1)
		}
		same = q.AddWith(k, opts) == m.fail(k, &d, opts.Policy, priority)
	case n < 26:
		item, ok := q.TryTake()
		want, wantOK := m.take()
		did = r.call("TryTake", item.Key, 0)
		if same = item.Key == want && ok == wantOK; same && ok {
			key := m.keys[want]
			same = item.Priority == key.priority && item.Attempt == key.failures+1 && item.FirstFailure.IsZero() == (key.failures == 0)
		}
	case n < 32:
		did = r.call("Done", k, 0)
		q.Done(k)
		m.done(k)
	case n < 33:
		did = r.call("Cancel", k, 0)
		same = q.Cancel(k) == m.cancel(k)
	case n < 34:
		did = r.call("Forget", k, 0)
		q.Forget(k)
		m.forget(k)
	case n < 35:
		did = r.call("RetryParked", k, 0)
		same = q.RetryParked(k) == m.retryParked(k)
	case n < 36:
		did = r.call("DropParked", k, 0)
		same = q.DropParked(k) == m.dropParked(k)
	case n < 38:
		did, same = r.run(pick(r, []string{"nil", "stop", "error", "Goexit"}))
	case last:
		did = r.call("ShutDown", k, 0)
		q.ShutDown()
		m.shutDown()
	default:
		return r.sleep(pick(r, []time.Duration{1, time.Millisecond, 3 * time.Millisecond, 20 * time.Millisecond, time.Hour}))
	}
	if !same {
		return errors.New("the answer is another")
	}
	return r.check(did)
}

// run calls Run with a context that ends when work is called. It reports whether Run did what the model does.
func (r *contractRun) run(outcome string) (move, bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	worked, did := false, 0
	if _, _, ok := r.m.order.next(); ok { // or it would wait
		err := r.q.Run(ctx, 1, func(ctx context.Context, item workqueue.Item[int]) error {
			worked, did = true, item.Key
			cancel()
			switch outcome {
			case "nil":
				return nil
			case "stop":
				return fmt.Errorf("get: %w", ctx.Err())
			case "Goexit":
				runtime.Goexit()
			}
			return errors.New("broken")
		})
		if err != nil {
			return move{}, false
		}
	}
	name := map[string]string{"nil": "Forget", "error": "AddRateLimited", "Goexit": "AddRateLimited"}[outcome]
	if !worked {
		name = "nothing"
	}
	move := r.call(name+" by Run: "+outcome, did, 0)
	want, ok := r.m.run(outcome)
	return move, worked == ok && did == want
}

func (r *contractRun) call(name string, k int, policy workqueue.Policy) move {
	r.trace = append(r.trace, fmt.Sprintf("%s %d, policy %d", name, k, policy))
	return move{name, k, policy}
}

// sleep lets time pass, and looks a nanosecond before each moment at which something happens, and then.
func (r *contractRun) sleep(d time.Duration) error {
	r.trace = append(r.trace, fmt.Sprint("sleep ", d))
	for end := r.m.now() + int64(d); r.m.now() < end; {
		to := end
		if next := r.m.next(); next != 0 && next < end {
			to = next
		}
		if before := to - 1 - r.m.now(); before > 0 {
			time.Sleep(time.Duration(before))
			synctest.Wait()
			if err := r.check(move{name: "sleep"}); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(to - r.m.now()))
		synctest.Wait()
		r.m.tick()
		if err := r.check(move{name: "sleep"}); err != nil {
			return err
		}
	}
	return nil
}

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

func TestRandomCallsOfEveryKindAgreeWithTheContract(t *testing.T) {
	seeds := uint64(300)
	if raceEnabled {
		seeds = 100
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := newContractRun(seed)
			const steps = 100
			for i := range steps {
				err := r.step(i > steps-10)
				require.NoError(t, err, "seed %d, step %d: %+v\n%s", seed, i, r.m.cfg, strings.Join(r.trace, "\n"))
			}
			r.q.ShutDown()
		})
	}
}
