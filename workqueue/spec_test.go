package workqueue_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
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
	specRuns  = flag.Int("spec.runs", 5, "random histories compared with the model of the contract, for each configuration")
	specCount = flag.Int("spec.calls", 1, "calls in each history of one key that is tried exhaustively, after some that are given")
	specDepth = flag.Int("spec.depth", 5, "calls in each history of two keys that is tried exhaustively")
)

// specRun compares one queue with the model.
type specRun struct {
	t       *testing.T
	subject *specSubject
	models  []*spec // all that may be true
	log     []any   // calls and delays
	trusts  bool    // compares answers alone: another history compares the rest
}

func newSpecRun(t *testing.T, rules specRules) *specRun {
	return &specRun{t: t, subject: newSpecSubject(rules), models: []*spec{newSpec(rules)}}
}

// do makes the calls concurrently, and fails unless what follows is what follows from one of their orders.
func (r *specRun) do(calls ...specCall) {
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
	answers := []string{r.subject.call(one), r.subject.call(two)}
	r.follows([]specCall{one, two}, answers, [][]int{{0, 1}})
}

// follows fails unless the state now follows from the calls in one of the orders.
func (r *specRun) follows(calls []specCall, answers []string, orders [][]int) {
	r.log = append(r.log, calls)
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
	r.check(next, calls, "answered", answers)
}

// pass lets time pass.
func (r *specRun) pass(d time.Duration) bool {
	r.log = append(r.log, d)
	time.Sleep(d)
	synctest.Wait()
	for _, m := range r.models {
		if !m.advance(time.Now()) {
			return false
		}
	}
	r.check(r.models, d)
	return true
}

// check keeps the models that agree with the queue, and fails if there is none.
func (r *specRun) check(models []*spec, what ...any) {
	if r.trusts && len(models) > 0 {
		r.models = models
		return
	}
	got := r.subject.String()
	var agree []*spec
	for _, m := range models {
		// The text says everything but what a limiter counts for itself.
		if m.String() == got && !slices.ContainsFunc(agree, func(a *spec) bool { return slices.Equal(a.whens(), m.whens()) }) {
			agree = append(agree, m)
		}
	}
	if len(agree) == 0 {
		want := "no order of the calls gives these answers"
		if len(models) > 0 {
			want = models[0].String()
		}
		r.t.Fatalf("after %v\n%v\nthe queue says:\n%s\nthe contract says:\n%s", what, r.log, got, want)
	}
	for _, m := range agree {
		m.hooks = nil
	}
	r.subject.compared()
	r.models = agree
}

// end releases all that wait, and fails unless every key that is left comes out, in order.
func (r *specRun) end() {
	r.trusts = true
	r.do(specCall{what: "end contexts"}) // the text counts those that it ended, also after the shutdown
	r.trusts = false
	r.do(specCall{what: "ShutDown"})
	r.do(specCall{what: "Resume"})
	r.trusts = true
	for left := true; left; {
		left = false
		for key, k := range r.models[0].keys {
			if k.state == specProcess || k.state == specDirty {
				r.do(specCall{what: "Done", key: key})
				left = true
			}
		}
		if len(r.models[0].ready()) > 0 {
			r.do(specCall{what: "TryTake"})
			left = true
		}
	}
	r.trusts = false
	r.check(r.models, "the end")
}

// stop releases all that wait.
func (r *specRun) stop() {
	r.subject.cancel(nil)
	r.subject.q.Resume()
	r.subject.q.ShutDown()
	for _, ok := tryGet(r.subject.q); ok; {
		_, ok = tryGet(r.subject.q)
	}
	for _, key := range []string{"a", "b", "c"} { // a dirty key may be dispatched once more
		r.subject.q.Done(key)
	}
	r.subject.q.ShutDown()
	for _, ok := tryGet(r.subject.q); ok; {
		_, ok = tryGet(r.subject.q)
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
			specCall{what: "DropParked", key: key},
			specCall{what: "TryTakeKey", key: key},
			specCall{what: "AddAfter", key: key},
			specCall{what: "AddWith", key: key, priority: 2},
			specCall{what: "AddWith", key: key, priority: -1},
			specCall{what: "AddWith", key: key, priority: -2, set: true},
			specCall{what: "AddWith RateLimited", key: key, set: true},
			specCall{what: "AddWith After", key: key, delay: ms(811), set: true},
			specCall{what: "AddWith RateLimited", key: key, priority: 1},
			specCall{what: "AddWith RateLimited After", key: key, delay: ms(2507)},
			specCall{what: "AddWith RateLimited After", key: key, delay: ms(211), replace: true},
			specCall{what: "AddWith RateLimited After", key: key},
			specCall{what: "AddWith After", key: key, delay: ms(3109), replace: true},
			specCall{what: "AddWith After", key: key, delay: ms(409), replace: true, priority: 1},
			specCall{what: "AddWith After", key: key, delay: -time.Second, replace: true},
			specCall{what: "AddWith At", key: key, delay: -time.Second},
			specCall{what: "AddWith At", key: key, delay: ms(607), priority: -1},
			specCall{what: "Park", key: key},
		)
	}
	return append(calls, specCall{what: "TryTake"}, specCall{what: "Take"}, specCall{what: "ShutDown"}, specCall{what: "Drain"},
		specCall{what: "WaitIdle"}, specCall{what: "end contexts"}, specCall{what: "Run nil"}, specCall{what: "Run stop"},
		specCall{what: "Run error"}, specCall{what: "Run Goexit"}, specCall{what: "Run panic"}, specCall{what: "Run permanent"},
		specCall{what: "Run after"}, specCall{what: "Run not yet"}, specCall{what: "Run soon"},
		specCall{what: "Run conflict"}, specCall{what: "Run conflict"}, specCall{what: "Run conflict"},
		specCall{what: "Pause"}, specCall{what: "Resume"}, specCall{what: "Resume"}, specCall{what: "Resume"})
}

// waits reports whether c is one of the calls that must not overlap with another: how many wait would be seen too early, or too late.
func (c specCall) waits() bool {
	return c.what == "Take" || c.what == "WaitIdle" || c.what == "Drain" || strings.HasPrefix(c.what, "Run")
}

func TestEveryShortHistoryOfOneKeyFollowsTheContract(t *testing.T) {
	add, get, fail, next := specCall{what: "Add", key: "a"}, specCall{what: "TryTake"}, specCall{what: "AddRateLimited", key: "a"}, specCall{what: "Take"}
	later, done := specCall{what: "AddAfter", key: "a", delay: 777 * time.Millisecond}, specCall{what: "Done", key: "a"}
	stop, spend := specCall{what: "ShutDown"}, specCall{what: "Park", key: "a"}
	idle, drain, pause := specCall{what: "WaitIdle"}, specCall{what: "Drain"}, specCall{what: "Pause"}
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
					{fail, add, get},
					{fail, fail, fail},
					{spend},
					{spend, next},
					{add, get, spend},
					{add, get, spend, done, add},
					{fail, spend, stop},
					{add, get, add, stop},
					{add, idle},
					{add, drain},
					{pause, next, add},
					{next, pause, later},
					{pause, add, idle},
					{pause, add, drain},
					{add, drain, next, pause},
					{add, get, add, pause, stop},
					{add, get, add, stop, next, pause},
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
		r.trusts = i < len(begun)-*specCount
		r.do(c)
		if i%2 == 1 { // two calls at one time, then two at another
			r.pass(time.Nanosecond)
		}
	}
	if r.pass(400*time.Millisecond) && r.pass(time.Second) && r.pass(10*time.Second) {
		r.end()
	}
}

func TestRareHistoriesFollowTheContract(t *testing.T) {
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
			r.do(call("TryTake"))
			r.do(call(waits))
			r.inTurn(call("Done", "a"), call("end contexts"))
		})
	}
	run("Drain sees a shutdown and the end of its context", "plain", func(r *specRun) {
		r.do(call("Add", "a"))
		r.do(call("Drain"))
		r.inTurn(call("ShutDown"), call("end contexts"))
	})
	run("Take sees a key and the end of its context", "plain", func(r *specRun) {
		r.do(call("Take"))
		r.inTurn(call("Add", "a"), call("end contexts"))
	})
	run("two that wait share one key that comes while their contexts end", "plain", func(r *specRun) {
		r.do(call("Take"))
		r.do(call("Take"))
		r.do(call("Add", "a"), call("end contexts"))
	})
}

func TestRandomHistoriesFollowTheContract(t *testing.T) {
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
			case overlap && c.waits():
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

// specPlay compares a queue with the model, call by call, without goroutines that wait.
type specPlay struct {
	subject *specSubject
	model   *spec
	log     []fmt.Stringer
}

func newSpecPlay(rules specRules) *specPlay {
	return &specPlay{subject: newSpecSubject(rules), model: newSpec(rules)}
}

// do makes a call, and returns an error if the queue answers another thing than the contract.
func (p *specPlay) do(c specCall) error {
	p.log = append(p.log, c)
	got, want := p.subject.call(c), p.model.call([]specCall{c}, []int{0}, false)[0]
	if got != want {
		return fmt.Errorf("after %v\nthe queue answers %q, the contract %q", p.log, got, want)
	}
	return nil
}

// check returns an error unless what a user can observe is what the contract says.
func (p *specPlay) check() error {
	if got, want := p.subject.String(), p.model.String(); got != want {
		return fmt.Errorf("after %v\nthe queue says:\n%s\nthe contract says:\n%s", p.log, got, want)
	}
	p.subject.compared()
	p.model.hooks = nil
	return nil
}

// sleep lets time pass, and checks a nanosecond before each deadline, and then. It reports whether the contract says what
// happens: not if two deadlines fall together.
func (p *specPlay) sleep(d time.Duration) (decided bool, err error) {
	p.log = append(p.log, d)
	for end := p.model.now.Add(d); p.model.now.Before(end); {
		checks := []time.Time{end}
		if at, _ := p.model.upcoming(); !at.IsZero() && !at.After(end) {
			checks = []time.Time{at.Add(-1), at}
		}
		for _, at := range checks {
			time.Sleep(at.Sub(p.model.now))
			synctest.Wait()
			if !p.model.advance(at) {
				return false, nil
			}
			if err := p.check(); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// specSteps are calls and sleeps for one goroutine.
func specSteps(keys ...string) (calls []specCall) {
	for _, c := range specCalls(keys...) {
		if (!c.waits() || strings.HasPrefix(c.what, "Run")) && c.what != "ShutDown" && c.what != "end contexts" {
			calls = append(calls, c)
		}
	}
	for _, d := range []time.Duration{1, time.Millisecond, 3 * time.Millisecond, 20 * time.Millisecond, 700 * time.Millisecond,
		3 * time.Second, 61 * time.Minute} {
		calls = append(calls, specCall{what: "sleep", delay: d})
	}
	return calls
}

// step makes a call, or sleeps, and checks.
func (p *specPlay) step(c specCall, jitter time.Duration) (decided bool, err error) {
	if c.what == "sleep" {
		return p.sleep(c.delay)
	}
	if c.delay > 0 {
		c.delay += jitter // so that deadlines do not fall together
	}
	if err := p.do(c); err != nil {
		return true, err
	}
	if decided, err := p.sleep(1); !decided || err != nil {
		return decided, err
	}
	return true, nil
}

// drain processes the remaining keys: a lost key never comes.
func (p *specPlay) drain() error {
	if err := p.do(specCall{what: "Resume"}); err != nil {
		return err
	}
	for {
		c := specCall{what: "TryTake"}
		for key, k := range p.model.keys {
			if k.shown == workqueue.InProcess {
				c = specCall{what: "Done", key: key}
			}
		}
		if c.key == "" && len(p.model.ready()) == 0 {
			return p.check()
		}
		if err := p.do(c); err != nil {
			return err
		}
	}
}

func TestLongSequentialHistoriesFollowTheContract(t *testing.T) {
	for name, rules := range specConfigs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range *specRuns {
				synctest.Test(t, func(t *testing.T) { longHistory(t, rules, uint64(seed)) })
			}
		})
	}
}

func longHistory(t *testing.T, rules specRules, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	keys := []string{"a", "b", "c", "d"}
	calls := specSteps(keys...)
	p := newSpecPlay(rules)
	const steps = 100
	for i := range steps {
		c := calls[random.IntN(len(calls))]
		switch n := random.IntN(20); {
		case n < 6:
			c = specCall{what: []string{"TryTake", "TryTake", "Done", "Done", "Done", "Add"}[n], key: keys[random.IntN(4)]}
			if c.what == "TryTake" {
				c.key = ""
			}
		case n == 6:
			c = specCall{what: "WaitIdle, Done", key: keys[random.IntN(4)]}
		case n == 7 && i > steps-10:
			c = specCall{what: []string{"ShutDown", "Drain, Done", "Drain, ShutDown, Done"}[random.IntN(3)], key: keys[random.IntN(4)]}
		}
		decided, err := p.step(c, time.Duration(random.IntN(1_000_000)))
		if err != nil {
			t.Fatal(err)
		}
		if !decided {
			break
		}
	}
	p.subject.q.ShutDown()
}

// Priorities of every size, groups, limits and turns, with times in which few or many priorities age.
func TestKeyOrderFollowsTheContract(t *testing.T) {
	for name, rules := range specConfigs() {
		if rules.aging == 0 && !rules.groups {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range *specRuns * 2 {
				synctest.Test(t, func(t *testing.T) { orderHistory(t, rules, uint64(seed)) })
			}
		})
	}
}

func orderHistory(t *testing.T, rules specRules, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	priorities := []int{0, 0, 1, 2, -1, 30, math.MaxInt32, math.MinInt32}
	p := newSpecPlay(rules)
	for range 80 {
		c := specCall{key: string(rune('a' + random.IntN(12)))}
		switch random.IntN(8) {
		case 0, 1, 2:
			c.what, c.priority = "AddWith", priorities[random.IntN(len(priorities))]
		case 3:
			c = specCall{what: "TryTake"}
		case 4:
			c.what = "TryTakeKey"
		case 5:
			c.what = "Done"
			for key, k := range p.model.keys {
				if k.shown == workqueue.InProcess && (p.model.keys[c.key].shown != workqueue.InProcess || key < c.key) {
					c.key = key
				}
			}
		case 6:
			c.what = "Cancel"
		case 7:
			c = specCall{what: "sleep", delay: time.Duration(1 + random.IntN(3*max(int(rules.aging), 10)))}
		}
		decided, err := p.step(c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !decided {
			break
		}
	}
	p.subject.q.ShutDown()
	if err := p.subject.q.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
}

// The test plays all histories of two keys up to a length, of calls that have an effect. Each ends with a drain.
func TestEveryShortHistoryOfTwoKeysFollowsTheContract(t *testing.T) {
	a, b := func(what string) specCall { return specCall{what: what, key: "a"} }, func(what string) specCall { return specCall{what: what, key: "b"} }
	take, stop := specCall{what: "TryTake"}, specCall{what: "ShutDown"}
	for _, c := range []struct {
		calls []specCall
		depth int
	}{
		{[]specCall{a("Add"), b("Add"), take, a("Done"), b("Done")}, *specDepth},
		{[]specCall{a("Add"), b("Add"), take, a("Done"), b("Done"), stop, a("Cancel"), b("Cancel")}, *specDepth - 2},
	} {
		n := 0
		var walk func(begun []specCall)
		walk = func(begun []specCall) {
			p := newSpecPlay(specRules{delay: doubling})
			for _, c := range begun {
				if err := p.do(c); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.check(); err != nil {
				t.Fatal(err)
			}
			var next []specCall
			for _, c := range c.calls {
				if before := p.model.String(); len(begun) < cap(begun) { // what changes nothing is tried at the end alone
					after := p.model.clone()
					after.call([]specCall{c}, []int{0}, false)
					if after.String() != before {
						next = append(next, c)
					}
				}
			}
			if err := p.drain(); err != nil {
				t.Fatal(err)
			}
			n++
			for _, c := range next {
				walk(append(begun[:len(begun):cap(begun)], c))
			}
		}
		walk(make([]specCall, 0, c.depth))
		t.Logf("%d histories up to length %d", n, c.depth)
	}
}

func FuzzHistoriesFollowTheContract(f *testing.F) {
	f.Add(byte(0), []byte{0, 1, 0, 2, 3, 0x25, 1, 4, 0, 1, 0x45, 6, 2})
	f.Add(byte(12), []byte{0, 8, 16, 3, 1, 3, 5, 5})
	f.Add(byte(15), []byte{0, 24, 48, 3, 3, 7, 3, 5, 3, 13, 6})
	configs := specConfigs()
	names := slices.Sorted(maps.Keys(configs))
	calls := append(specSteps("a", "b"), specCall{what: "ShutDown"})
	f.Fuzz(func(t *testing.T, config byte, steps []byte) {
		synctest.Test(t, func(t *testing.T) {
			p := newSpecPlay(configs[names[int(config)%len(names)]])
			for i, step := range steps[:min(len(steps), 200)] {
				decided, err := p.step(calls[int(step)%len(calls)], time.Duration(i))
				if err != nil {
					t.Fatal(err)
				}
				if !decided {
					break
				}
			}
			p.subject.q.ShutDown()
		})
	})
}
