package workqueue_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

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
	p.model.told = nil
	return nil
}

// sleep lets time pass, and checks a nanosecond before each deadline, and then. It reports whether the contract says what
// happens: not if two deadlines fall together.
func (p *specPlay) sleep(d time.Duration) (known bool, err error) {
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
func (p *specPlay) step(c specCall, jitter time.Duration) (known bool, err error) {
	if c.what == "sleep" {
		return p.sleep(c.delay)
	}
	if c.delay > 0 {
		c.delay += jitter // so that deadlines do not fall together
	}
	if err := p.do(c); err != nil {
		return true, err
	}
	if known, err := p.sleep(1); !known || err != nil {
		return known, err
	}
	return true, nil
}

// drain processes the remaining keys: a lost key never comes.
func (p *specPlay) drain() error {
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
		known, err := p.step(c, time.Duration(random.IntN(1_000_000)))
		if err != nil {
			t.Fatal(err)
		}
		if !known {
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
		known, err := p.step(c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !known {
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
	a, b := func(what string) specCall { return specCall{what, "a", 0, 0, 0} }, func(what string) specCall { return specCall{what, "b", 0, 0, 0} }
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
				known, err := p.step(calls[int(step)%len(calls)], time.Duration(i))
				if err != nil {
					t.Fatal(err)
				}
				if !known {
					break
				}
			}
			p.subject.q.ShutDown()
		})
	})
}
