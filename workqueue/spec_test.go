package workqueue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

var (
	specRuns  = flag.Int("spec.runs", 40, "random histories compared with the model of the contract, for each configuration")
	specCount = flag.Int("spec.calls", 1, "calls in each history of the model of the contract that is tried exhaustively")
)

// countingLimiter is a limiter of a user: it counts for itself.
type countingLimiter struct {
	mu     sync.Mutex
	counts map[string]int
	delay  func(n int) time.Duration
}

func (l *countingLimiter) When(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[key]++
	return l.delay(l.counts[key])
}

func (l *countingLimiter) Forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.counts, key)
}

func (l *countingLimiter) NumRequeues(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[key]
}

func doubling(n int) time.Duration { return 5 * time.Millisecond << (n - 1) }

// atOnce is a limiter without delays, every third time.
func atOnce(n int) time.Duration {
	if n%3 == 0 {
		return 0
	}
	return time.Duration(n) * 700 * time.Millisecond
}

// specConfigs are the configurations that the model is compared with.
func specConfigs() map[string]specRules {
	counting := func(delay func(int) time.Duration) func() specLimiter[string] {
		return func() specLimiter[string] { return &countingLimiter{counts: map[string]int{}, delay: delay} }
	}
	return map[string]specRules{
		"plain": {delay: doubling},
		"the explicit default limiter": {delay: doubling, attempts: 4,
			limiter: workqueue.DefaultControllerRateLimiter[string]},
		"a budget of two attempts":        {delay: doubling, attempts: 2},
		"one attempt":                     {delay: doubling, attempts: 1},
		"a budget of time":                {delay: doubling, elapsed: 1500 * time.Millisecond},
		"a limiter that counts":           {delay: doubling, own: true, attempts: 3, limiter: counting(doubling)},
		"a limiter with delays of zero":   {delay: atOnce, own: true, attempts: 4, limiter: counting(atOnce)},
		"debounced":                       {delay: doubling, debounce: 2 * time.Second, limit: 5 * time.Second},
		"debounced with a budget":         {delay: doubling, debounce: 2 * time.Second, limit: 3 * time.Second, attempts: 2},
		"getters of client-go":            {delay: doubling, get: true, attempts: 3},
		"getters of client-go, debounced": {delay: doubling, get: true, debounce: 2 * time.Second, limit: 20 * time.Second},
	}
}

// subject is a queue, and the goroutines that wait in it.
type specSubject struct {
	q   *workqueue.Queue[string]
	get bool

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu sync.Mutex // guards the following

	getters, told, stopped int
	drains, idlers, strays int
	drained                [3]int
	idled                  [2]int
	strange                []string
}

var errSpecEnough = errors.New("enough")

func newSpecSubject(rules specRules) *specSubject {
	cfg := workqueue.Config[string]{MaxAttempts: rules.attempts, MaxElapsed: rules.elapsed,
		Debounce: rules.debounce, DebounceLimit: rules.limit}
	if rules.limiter != nil {
		cfg.RateLimiter = rules.limiter()
	}
	s := &specSubject{get: rules.get}
	cfg.Hooks.StrayDone = func(string) { s.count(&s.strays, 1) }
	s.q = must(workqueue.New(cfg))
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// call makes a call, and returns what it answers.
func (s *specSubject) call(c specCall) string {
	q := s.q
	switch c.what {
	case "Add":
		q.Add(c.key)
	case "AddAfter":
		q.AddAfter(c.key, c.delay)
	case "AddWith After":
		return fmt.Sprint(q.AddWith(c.key, workqueue.AddOptions{After: c.delay, Policy: c.policy}))
	case "AddRateLimited":
		q.AddRateLimited(c.key)
	case "AddWith RateLimited":
		return fmt.Sprint(q.AddWith(c.key, workqueue.AddOptions{RateLimited: true, After: c.delay, Policy: c.policy}))
	case "Forget":
		q.Forget(c.key)
	case "Cancel":
		return fmt.Sprint(q.Cancel(c.key))
	case "Done":
		q.Done(c.key)
	case "TryGet":
		key, ok := q.TryGet()
		if !ok {
			return "none"
		}
		return key
	case "DropParked":
		return fmt.Sprint(q.DropParked(c.key))
	case "RetryParked":
		return fmt.Sprint(q.RetryParked(c.key))
	case "ShutDown":
		q.ShutDown()
	case "Drain":
		s.count(&s.drains, 1)
		go func() { // ends when the drain does; the run ends all of them
			err := q.Drain(s.ctx)
			s.count(&s.drains, -1)
			s.ended(err, s.drained[:])
		}()
	case "WaitIdle":
		s.count(&s.idlers, 1)
		go func() { // ends when the queue is idle, or by its context
			err := q.WaitIdle(s.ctx)
			s.count(&s.idlers, -1)
			s.ended(err, s.idled[:])
		}()
	case "Next":
		s.count(&s.getters, 1)
		go s.getter() // ends with a key, or when it is told to
	case "end contexts":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancel(errSpecEnough)
		s.ctx, s.cancel = context.WithCancelCause(context.Background())
	}
	return ""
}

func (s *specSubject) getter() {
	if s.get {
		_, shutdown := s.q.Get()
		s.count(&s.getters, -1)
		if shutdown {
			s.count(&s.told, 1)
		}
		return
	}
	_, err := s.q.Next(s.ctx)
	s.count(&s.getters, -1)
	switch {
	case err == nil:
	case errors.Is(err, workqueue.ErrShutDown):
		s.count(&s.told, 1)
	case errors.Is(err, errSpecEnough):
		s.count(&s.stopped, 1)
	default:
		s.wonder(err)
	}
}

func (s *specSubject) count(n *int, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n += by
}

func (s *specSubject) wonder(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strange = append(s.strange, err.Error())
}

func (s *specSubject) ended(err error, results []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		results[endedNil]++
	case errors.Is(err, errSpecEnough):
		results[endedByContext]++
	case errors.Is(err, workqueue.ErrShutDown) && len(results) > endedByShutDown:
		results[endedByShutDown]++
	default:
		s.strange = append(s.strange, err.Error())
	}
}

// String returns all that a user can observe. It calls every method that only reads.
func (s *specSubject) String() string {
	var b strings.Builder
	infos := s.q.Snapshot()
	slices.SortFunc(infos, func(a, b workqueue.KeyInfo[string]) int { return strings.Compare(a.Key, b.Key) })
	stats := workqueue.Stats{}
	var parked []string
	for _, i := range infos {
		if i.Failures != s.q.NumRequeues(i.Key) {
			fmt.Fprintf(&b, "Snapshot says %d failures of %s, NumRequeues %d\n", i.Failures, i.Key, s.q.NumRequeues(i.Key))
		}
		writeKey(&b, i.Key, i.State, i.Dirty, i.Next, i.Calm, i.Failures)
		switch i.State {
		case workqueue.Ready:
			stats.Ready++
		case workqueue.InProcess:
			stats.InProcess++
		case workqueue.Parked:
			stats.Parked++
			parked = append(parked, i.Key)
		case workqueue.Remembered:
			stats.Remembered++
		}
		if i.Dirty {
			stats.Dirty++
		}
	}
	if got := s.q.Stats(); got.Ready != stats.Ready || got.InProcess != stats.InProcess || got.Dirty != stats.Dirty ||
		got.Parked != stats.Parked || got.Remembered != stats.Remembered {
		fmt.Fprintf(&b, "Stats says %+v, Snapshot %+v\n", got, stats)
	}
	if got := slices.Sorted(slices.Values(s.q.Parked())); !slices.Equal(got, parked) {
		fmt.Fprintf(&b, "Parked says %v, Snapshot %v\n", got, parked)
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errSpecEnough)
	idle := s.q.WaitIdle(ended) == nil // as documented: idle is preferred to an ended context
	s.mu.Lock()
	defer s.mu.Unlock()
	writeRest(&b, s.q.Len(), s.q.ShuttingDown(), idle, s.strays)
	fmt.Fprintf(&b, "waiting: getters %d drains %d idlers %d; getters told %d stopped %d; drained %v idled %v\n",
		s.getters, s.drains, s.idlers, s.told, s.stopped, s.drained, s.idled)
	for _, text := range s.strange {
		fmt.Fprintf(&b, "strange: %s\n", text)
	}
	return b.String()
}

// specRun compares one queue with the model.
type specRun struct {
	t       *testing.T
	subject *specSubject
	models  []*spec // all that may be true
	log     []string
}

func newSpecRun(t *testing.T, rules specRules) *specRun {
	return &specRun{t: t, subject: newSpecSubject(rules),
		models: []*spec{{specRules: rules, now: time.Now(), keys: map[string]specKey{}}}}
}

// do makes the calls concurrently, and fails unless what follows is what follows from one of their orders.
func (r *specRun) do(calls ...specCall) {
	r.t.Helper()
	answers := make([]string, len(calls))
	var group sync.WaitGroup
	for i, c := range calls[1:] {
		group.Go(func() { answers[i+1] = r.subject.call(c) }) // ends with the call; waited for below
	}
	answers[0] = r.subject.call(calls[0])
	group.Wait()
	r.follows(calls, answers, orders(len(calls)))
}

// inTurn makes one call right after the other, so that goroutines that wait see the effects of both.
func (r *specRun) inTurn(one, two specCall) {
	r.t.Helper()
	answers := []string{r.subject.call(one), r.subject.call(two)}
	r.follows([]specCall{one, two}, answers, [][]int{{0, 1}})
}

// follows fails unless the state now follows from the calls in one of the orders.
func (r *specRun) follows(calls []specCall, answers []string, orders [][]int) {
	r.t.Helper()
	r.log = append(r.log, fmt.Sprint(calls))
	synctest.Wait()
	var next []*spec
	for _, m := range r.models {
		for _, order := range orders {
			for _, atOnce := range []bool{false, true}[:len(calls)] {
				c := m.clone()
				if slices.Equal(c.call(calls, order, atOnce), answers) {
					next = append(next, c)
				}
			}
		}
	}
	r.check(next, fmt.Sprintf("%v answered %q", calls, answers))
}

// pass lets time pass.
func (r *specRun) pass(d time.Duration) bool {
	r.t.Helper()
	r.log = append(r.log, d.String())
	time.Sleep(d)
	synctest.Wait()
	for _, m := range r.models {
		if !m.advance(time.Now()) {
			return false
		}
	}
	r.check(r.models, "after "+d.String())
	return true
}

// check keeps the models that agree with the queue, and fails if there is none.
func (r *specRun) check(models []*spec, what string) {
	r.t.Helper()
	got := r.subject.String()
	var agree []*spec
	for _, m := range models {
		if m.String() == got && !slices.ContainsFunc(agree, func(a *spec) bool { return slices.Equal(a.line, m.line) }) {
			agree = append(agree, m)
		}
	}
	if len(agree) == 0 {
		want := "no order of the calls gives these answers"
		if len(models) > 0 {
			want = models[0].String()
		}
		r.t.Fatalf("after %s\n%s\nthe queue says:\n%s\nthe contract says:\n%s", what, strings.Join(r.log, "; "), got, want)
	}
	r.models = agree
}

// end releases all that wait, and fails unless every key that is left comes out, in order.
func (r *specRun) end() {
	r.t.Helper()
	r.do(specCall{what: "end contexts"})
	r.do(specCall{what: "ShutDown"})
	for left := true; left; {
		left = false
		for key, k := range r.models[0].keys {
			if k.state == specProcess || k.state == specDirty {
				r.do(specCall{what: "Done", key: key})
				left = true
			}
		}
		if len(r.models[0].line) > 0 {
			r.do(specCall{what: "TryGet"})
			left = true
		}
	}
}

// stop releases all that wait.
func (r *specRun) stop() {
	r.subject.cancel(nil)
	r.subject.q.ShutDown()
	for _, ok := r.subject.q.TryGet(); ok; {
		_, ok = r.subject.q.TryGet()
	}
	for _, key := range []string{"a", "b", "c"} { // a dirty key may be handed out once more
		r.subject.q.Done(key)
	}
	r.subject.q.ShutDown()
	for _, ok := r.subject.q.TryGet(); ok; {
		_, ok = r.subject.q.TryGet()
	}
	synctest.Wait()
}

// orders returns the permutations of n, which is 1 or 2.
func orders(n int) [][]int {
	if n == 1 {
		return [][]int{{0}}
	}
	return [][]int{{0, 1}, {1, 0}}
}

// specCalls are the calls that a user can make. No delay is that of another call, so that deadlines do not fall together.
func specCalls(keys ...string) (calls []specCall) {
	for i, key := range keys {
		ms := func(n int) time.Duration {
			return time.Duration(n)*time.Millisecond + time.Duration(i)*1111*time.Nanosecond
		}
		calls = append(calls,
			specCall{what: "Add", key: key},
			specCall{what: "Done", key: key},
			specCall{what: "AddRateLimited", key: key},
			specCall{what: "AddAfter", key: key, delay: ms(1003)},
			specCall{what: "Forget", key: key},
			specCall{what: "Cancel", key: key},
			specCall{what: "RetryParked", key: key},
			specCall{what: "DropParked", key: key},
			specCall{what: "AddAfter", key: key},
			specCall{what: "AddWith RateLimited", key: key, delay: ms(2507)},
			specCall{what: "AddWith After", key: key, delay: ms(3109), policy: workqueue.Latest},
			specCall{what: "AddWith After", key: key, delay: ms(409), policy: workqueue.Replace},
			specCall{what: "AddWith RateLimited", key: key, delay: ms(211), policy: workqueue.Replace},
			specCall{what: "AddWith After", key: key, delay: -time.Second},
		)
	}
	return append(calls, specCall{what: "TryGet"}, specCall{what: "Next"}, specCall{what: "ShutDown"},
		specCall{what: "Drain"}, specCall{what: "WaitIdle"}, specCall{what: "end contexts"})
}

func TestEveryShortHistoryOfAKeyIsAsTheContractSays(t *testing.T) {
	add, get, fail, next := specCall{what: "Add", key: "a"}, specCall{what: "TryGet"}, specCall{what: "AddRateLimited", key: "a"}, specCall{what: "Next"}
	later, done := specCall{what: "AddAfter", key: "a", delay: 777 * time.Millisecond}, specCall{what: "Done", key: "a"}
	stop := specCall{what: "ShutDown"}
	for name, rules := range specConfigs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, begun := range [][]specCall{
					{},
					{add, get},
					{later, add, get, add},
					{add, get, add, next},
					{later, fail},
					{add, get, fail},
					{add, get, fail, add},
					{fail, fail, fail},
					{add, get, fail, fail, fail, done, add},
					{fail, fail, fail, stop},
					{add, get, add, stop},
				} {
					everySpecHistory(t, rules, begun, *specCount)
				}
			})
		})
	}
}

// everySpecHistory tries every history that begins with these calls and has so many more.
func everySpecHistory(t *testing.T, rules specRules, begun []specCall, more int) {
	if more > 0 {
		for _, c := range specCalls("a") {
			everySpecHistory(t, rules, append(begun[:len(begun):len(begun)], c), more-1)
		}
		return
	}
	r := newSpecRun(t, rules)
	defer r.stop()
	for i, c := range begun {
		r.do(c)
		if i%2 == 1 { // two calls at one time, then two at another
			r.pass(time.Nanosecond)
		}
	}
	if r.pass(400*time.Millisecond) && r.pass(time.Second) && r.pass(10*time.Second) {
		r.end()
	}
}

func TestHistoriesThatChanceRarelyMakesAreAsTheContractSays(t *testing.T) {
	configs := specConfigs()
	call := func(what string, key ...string) specCall { return specCall{what: what, key: strings.Join(key, "")} }
	run := func(name, config string, history func(r *specRun)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 20 { // some of these would go wrong by chance alone
					r := newSpecRun(t, configs[config])
					history(r)
					r.end()
					r.stop()
				}
			})
		})
	}
	run("a shutdown ends quiet times in their order", "debounced", func(r *specRun) {
		for _, key := range []string{"a", "b", "c", "a"} {
			r.do(call("Add", key))
			r.pass(time.Millisecond)
		}
		r.do(call("ShutDown"))
	})
	for _, early := range []time.Duration{1, 0} {
		run(fmt.Sprintf("a failure %v before the end of a budget of time", early), "a budget of time", func(r *specRun) {
			r.do(call("AddRateLimited", "a"))
			r.pass(configs["a budget of time"].elapsed - early)
			r.do(call("AddRateLimited", "a"))
		})
	}
	for _, waits := range []string{"WaitIdle", "Drain"} {
		run(waits+" sees the end of its context and an idle queue", "plain", func(r *specRun) {
			r.do(call("Add", "a"))
			r.do(call("TryGet"))
			r.do(call(waits))
			r.inTurn(call("Done", "a"), call("end contexts"))
		})
	}
	run("Drain sees a shutdown and the end of its context", "plain", func(r *specRun) {
		r.do(call("Add", "a"))
		r.do(call("Drain"))
		r.inTurn(call("ShutDown"), call("end contexts"))
	})
	run("Next sees a key and the end of its context", "plain", func(r *specRun) {
		r.do(call("Next"))
		r.inTurn(call("Add", "a"), call("end contexts"))
	})
	run("two that wait share one key that comes while their contexts end", "plain", func(r *specRun) {
		r.do(call("Next"))
		r.do(call("Next"))
		r.do(call("Add", "a"), call("end contexts"))
	})
}

func TestRandomHistoriesAreAsTheContractSays(t *testing.T) {
	for name, rules := range specConfigs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range *specRuns {
				synctest.Test(t, func(t *testing.T) { specHistory(t, rules, uint64(seed)) })
			}
		})
	}
}

// specHistory makes random calls, alone and two at a time, and lets random times pass.
func specHistory(t *testing.T, rules specRules, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	calls := specCalls("a", "b", "c")
	pick := func(overlap bool) specCall {
		for {
			c := calls[random.IntN(len(calls))]
			rare := c.what == "ShutDown" || c.what == "Drain"
			switch {
			case rare && random.IntN(12) > 0:
			case overlap && (c.what == "Next" || c.what == "WaitIdle" || c.what == "Drain"):
			default:
				if c.delay > 0 {
					c.delay += time.Duration(random.IntN(1_000_000)) // so that deadlines do not fall together
				}
				return c
			}
		}
	}
	r := newSpecRun(t, rules)
	defer r.stop()
	for range 40 {
		switch random.IntN(10) {
		case 0, 1:
			if !r.pass(time.Duration(random.Int64N(3_000_000_000))) {
				return
			}
		case 2, 3, 4:
			one, two := pick(true), pick(true)
			for one.delay == 0 && two.delay == 0 && one.key != two.key { // or their deadlines may fall together
				two = pick(true)
			}
			if random.IntN(2) == 0 {
				r.do(one, two)
			} else {
				r.inTurn(one, two)
			}
		default:
			r.do(pick(false))
		}
		if !r.pass(time.Duration(1 + random.IntN(1000))) {
			return
		}
	}
	r.end()
}
