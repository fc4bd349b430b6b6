package workqueue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	switch n := r.random.IntN(45); {
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
	case n < 40:
		did, same = r.waitAsTheContextEnds(k, last)
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

// waitAsTheContextEnds waits with a context that ends in the middle of the call, and does k just then. It reports whether the
// call answered as the model does.
func (r *contractRun) waitAsTheContextEnds(k int, last bool) (move, bool) {
	q, m := r.q, r.m
	ended, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := q.Next(endsAfterACheck{ended, cancel})
	same := errors.Is(err, context.Canceled)

	drains, releases := last && r.random.IntN(2) == 0, false
	idle := m.idle()
	ctx := newScripted(context.Background(), func() {
		releases = drains && r.random.IntN(2) == 0
		if releases {
			q.ShutDown()
		}
		q.Done(k)
		m.done(k)
		idle = m.idle()
	})
	wait := q.WaitIdle
	if drains {
		wait = q.Drain
		m.shutDown()
		idle = m.idle()
	}
	switch err := wait(ctx); {
	case idle:
		same = same && err == nil
	case releases:
		same = same && errors.Is(err, workqueue.ErrShutDown)
	default:
		same = same && errors.Is(err, context.Canceled)
	}
	if drains {
		return r.call("ShutDown", k, 0), same
	}
	return r.call("WaitIdle, and Done as its context ends", k, 0), same
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
