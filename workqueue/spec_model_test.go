package workqueue_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// The model in this file and in spec_order_test.go follows the documentation, never the code. Keep it so: if the model and the
// queue disagree, the documentation decides which of them is wrong.

// specState is the state of a key, in the words of the contract.
type specState int

const (
	specAbsent specState = iota
	specReady
	specProcess
	specDirty
	specParked
)

// specKey is what the model knows of one key. A zero time is no deadline.
type specKey struct {
	state   specState
	wake    time.Time // from AddAfter
	backoff time.Time // from AddRateLimited
	first   time.Time // the first Add of a quiet time
	quiet   time.Time // the end of the quiet time

	failures int       // the count of the queue
	whens    int       // the failures that a limiter with a count of its own has been asked about
	failed   time.Time // the first of the failures
	spent    bool      // in process, and to be parked at the Done

	priority int
	reasons  []string // never changed in place

	shown   workqueue.State // the state in a Snapshot; 0 for none
	entered time.Time       // when it got into this state
	rank    int             // the greater, the later it did
	age     time.Time       // since when a ready key counts as ready
}

// specRules are the parts of a Config that the model obeys.
type specRules struct {
	debounce, limit time.Duration
	attempts        int
	elapsed         time.Duration
	own             bool                       // the limiter counts for itself
	delay           func(n int) time.Duration  // of failure n
	get             bool                       // getters call Get, not Take
	limiter         func() specLimiter[string] // a limiter of its own for each queue, or nil
	aging           time.Duration              // 0 is the default
	groups          bool
	groupLimit      int
	timestamps      bool
}

type specLimiter[K comparable] = workqueue.RateLimiter[K]

// spec is the model of a queue: what its documentation says.
type spec struct {
	specRules
	now    time.Time
	keys   map[string]specKey
	turns  map[int][]string // of each priority: the groups that take turns, the next one first
	graded bool             // a priority but 0 was in use, or there are groups
	rank   int

	shutdown bool
	told     []string // what the hooks were told since the last comparison

	getters int // calls of Take or Get that wait
	ended   int // of those that have ended: told that the queue is shut down
	stopped int // ended by their context
	drains  int // calls of Drain that wait
	drained [3]int
	idlers  int // calls of WaitIdle that wait
	idled   [2]int
}

// The results of Drain and WaitIdle, as indexes.
const (
	endedNil = iota
	endedByContext
	endedByShutDown
)

func newSpec(rules specRules) *spec {
	return &spec{specRules: rules, now: time.Now(), keys: map[string]specKey{}, turns: map[int][]string{}, graded: rules.groups}
}

func (s *spec) clone() *spec {
	c := *s
	c.keys, c.told, c.turns = maps.Clone(s.keys), slices.Clone(s.told), map[int][]string{}
	for p, groups := range s.turns {
		c.turns[p] = slices.Clone(groups)
	}
	return &c
}

// specCall is one call of the queue, or of a group of goroutines that wait in it.
type specCall struct {
	what     string
	key      string
	delay    time.Duration
	policy   workqueue.Policy
	priority int
}

func (c specCall) String() string {
	text := c.what
	if c.key != "" {
		text += " " + c.key
	}
	if c.delay != 0 {
		text += " " + c.delay.String()
	}
	if c.policy != 0 {
		text += fmt.Sprintf(" policy %d", c.policy)
	}
	if c.priority != 0 {
		text += fmt.Sprintf(" priority %d", c.priority)
	}
	return text
}

// reason is the reason that goes with the call.
func (c specCall) reason() string {
	if c.policy == 0 && c.priority == 0 {
		return ""
	}
	return c.String()
}

// call makes calls, one after the other, and returns what they answer. If they come at once, a goroutine that a call wakes
// may or may not run before the next one.
func (s *spec) call(calls []specCall, order []int, atOnce bool) []string {
	answers := make([]string, len(calls))
	for _, i := range order {
		answers[i] = s.make(calls[i])
		if s.rest(); !atOnce {
			s.settle()
		}
	}
	s.settle()
	return answers
}

// change changes a key.
func (s *spec) change(key string, how func(k *specKey)) {
	k := s.keys[key]
	how(&k)
	s.keys[key] = k
	s.settled(key)
}

// settled notes the state of a key after a change, and which groups take turns then.
func (s *spec) settled(key string) {
	k := s.keys[key]
	shown := k.show()
	if shown != k.shown {
		s.rank++
		k.shown, k.entered, k.rank = shown, s.now, s.rank
		if shown == workqueue.Ready {
			k.age = s.now
		}
		if shown == workqueue.Remembered || shown == 0 { // the queue has nothing more to do with it
			k.priority = 0
		}
	}
	s.keys[key] = k
	if shown == 0 {
		delete(s.keys, key)
	}
	s.settleTurns()
}

// show returns the state that a Snapshot shows.
func (k *specKey) show() workqueue.State {
	switch {
	case k.state == specReady:
		return workqueue.Ready
	case k.state == specProcess || k.state == specDirty:
		return workqueue.InProcess
	case k.state == specParked:
		return workqueue.Parked
	case !k.wake.IsZero() || !k.backoff.IsZero() || !k.quiet.IsZero():
		return workqueue.Delayed
	case k.failures > 0:
		return workqueue.Remembered
	default:
		return 0
	}
}

func (s *spec) tell(what ...any) { s.told = append(s.told, fmt.Sprint(what...)) }

// make makes a call, and returns what it answers, "" if it answers nothing.
func (s *spec) make(c specCall) (answer string) {
	defer func() { // a call that does nothing leaves nothing behind
		if c.key != "" {
			s.settled(c.key)
		}
	}()
	switch c.what {
	case "Add":
		s.add(c, true)
	case "AddAfter":
		s.addAfter(c)
	case "AddWith":
		s.add(c, true)
		return fmt.Sprint(!s.shutdown)
	case "AddWith After", "AddWith At":
		s.addAfter(c)
		return fmt.Sprint(!s.shutdown)
	case "AddRateLimited":
		s.fail(c, false, s.limiterDelay)
	case "AddWith RateLimited": // the limiter says for how long
		return fmt.Sprint(s.fail(c, false, s.limiterDelay))
	case "AddWith RateLimited After": // brings its own delay
		return fmt.Sprint(s.fail(c, false, func(*specKey) time.Duration { return c.delay }))
	case "AddWith Final":
		return fmt.Sprint(s.fail(c, true, func(*specKey) time.Duration { return c.delay }))
	case "Forget":
		s.forget(c.key)
	case "Cancel":
		answer := "false"
		s.change(c.key, func(k *specKey) {
			if k.state == specReady || k.state == specDirty || !k.wake.IsZero() || !k.backoff.IsZero() || !k.quiet.IsZero() {
				answer = "true"
			}
			switch k.state {
			case specReady:
				k.state = specAbsent
			case specDirty:
				k.state = specProcess
			}
			k.wake, k.backoff, k.quiet = time.Time{}, time.Time{}, time.Time{}
		})
		return answer
	case "Done":
		s.done(c.key)
	case "TryTake":
		key, _, ok := s.next()
		if !ok {
			return "none"
		}
		s.handOut() // never the key of c, which has none
		return s.item(key)
	case "TryTakeKey":
		k := s.keys[c.key]
		if k.state != specReady || !s.mayStart(c.key) {
			return "none"
		}
		s.take(c.key)
		return s.item(c.key)
	case "Run nil", "Run stop", "Run error", "Run Goexit":
		key, _, ok := s.next()
		if !ok {
			return "none"
		}
		s.handOut()
		switch c.what {
		case "Run nil":
			s.forget(key)
		case "Run stop":
			if !s.shutdown {
				s.change(key, func(k *specKey) { s.act(key, k) })
			}
		case "Run error":
			s.failWith(key, "broken")
		case "Run Goexit":
			s.failWith(key, "work called runtime.Goexit")
		}
		s.done(key)
		return key
	case "DropParked":
		if s.keys[c.key].state != specParked {
			return "false"
		}
		s.change(c.key, func(k *specKey) {
			k.state = specAbsent
			k.reset()
		})
		return "true"
	case "ShutDown":
		s.end()
		s.rest() // nil is preferred: a Drain that is over by then has not been released
		s.drained[endedByShutDown] += s.drains
		s.drains = 0
	case "Drain":
		s.end()
		s.drains++
	case "WaitIdle":
		s.idlers++
	case "WaitIdle, Done", "Drain, Done", "Drain, ShutDown, Done": // a wait whose context ends, just as the others are called
		if c.what != "WaitIdle, Done" {
			s.end()
		}
		if s.idle() {
			return "nil"
		}
		s.done(c.key)
		switch {
		case s.idle():
			return "nil"
		case c.what == "Drain, ShutDown, Done":
			return "shut down"
		default:
			return "canceled"
		}
	case "Take":
		s.getters++
	case "end contexts":
		s.rest()
		if !s.get { // a Get has no context
			s.stopped += s.getters
			s.getters = 0
		}
		s.drained[endedByContext] += s.drains
		s.idled[endedByContext] += s.idlers
		s.drains, s.idlers = 0, 0
	default:
		panic("no such call: " + c.what)
	}
	return ""
}

// item is what an Item says.
func (s *spec) item(key string) string {
	k := s.keys[key]
	return itemText(key, k.failures+1, k.failed, k.priority, k.reasons)
}

func itemText(key string, attempt int, first time.Time, priority int, reasons []string) string {
	return fmt.Sprintf("%s attempt %d first %s priority %d reasons %q", key, attempt, first.Format(time.RFC3339Nano), priority, reasons)
}

// note notes the reason of a call, and raises the priority.
func (s *spec) note(c specCall, k *specKey, raise bool) {
	if reason := c.reason(); reason != "" {
		k.reasons = append(slices.Clone(k.reasons), reason)
		k.reasons = k.reasons[max(0, len(k.reasons)-8):]
	}
	if raise && (k.shown == 0 || k.shown == workqueue.Remembered || c.priority > k.priority) {
		if k.priority != c.priority && !s.graded {
			s.graded = true
			for key, other := range s.keys {
				if !s.timestamps {
					other.age = s.now
					s.keys[key] = other
				}
			}
			if !s.timestamps {
				k.age = s.now
			}
		}
		k.priority = c.priority
	}
}

// add is Add, which may be debounced.
func (s *spec) add(c specCall, debounced bool) {
	if s.shutdown {
		return
	}
	s.change(c.key, func(k *specKey) {
		s.note(c, k, true)
		switch {
		case k.state == specReady, k.state == specDirty:
		case s.debounce == 0 || !debounced:
			s.act(c.key, k)
		default:
			if k.quiet.IsZero() {
				k.first = s.now
			}
			k.quiet = s.now.Add(s.debounce)
			if last := k.first.Add(s.limit); last.Before(k.quiet) {
				k.quiet = last
			}
		}
	})
}

// act is the column Add: the key becomes ready or dirty now.
func (s *spec) act(key string, k *specKey) {
	switch k.state {
	case specAbsent:
		k.state = specReady
	case specProcess:
		k.state = specDirty
	case specParked:
		k.state = specReady
		k.reset()
	default:
		return
	}
	s.tell("added ", key)
	k.backoff, k.quiet = time.Time{}, time.Time{} // both wait for this attempt
}

func (s *spec) addAfter(c specCall) {
	if s.shutdown {
		return
	}
	s.tell("delayed ", c.key, max(c.delay, 0))
	if c.delay <= 0 {
		s.add(c, false)
		return
	}
	s.change(c.key, func(k *specKey) {
		s.note(c, k, c.priority != 0)
		k.wake = specPick(c.policy, k.wake, s.now.Add(c.delay))
	})
}

// specPick is a Policy.
func specPick(p workqueue.Policy, stands, comes time.Time) time.Time {
	switch {
	case stands.IsZero(), p == workqueue.Replace:
		return comes
	case p == workqueue.Latest:
		if comes.After(stands) {
			return comes
		}
		return stands
	case comes.Before(stands):
		return comes
	default:
		return stands
	}
}

// limiterDelay returns what the limiter says of the latest failure.
func (s *spec) limiterDelay(k *specKey) time.Duration {
	if s.own {
		k.whens++
		return s.delay(k.whens)
	}
	return s.delay(k.failures)
}

// failWith is a failure that Run counts.
func (s *spec) failWith(key, reason string) {
	if k := s.keys[key]; !s.shutdown {
		k.reasons = append(slices.Clone(k.reasons), reason)
		k.reasons = k.reasons[max(0, len(k.reasons)-8):]
		s.keys[key] = k
	}
	s.fail(specCall{key: key}, false, s.limiterDelay)
}

// fail is a failure. It reports whether the key comes back for it.
func (s *spec) fail(c specCall, final bool, delay func(*specKey) time.Duration) (again bool) {
	if s.shutdown || s.keys[c.key].state == specParked {
		return false
	}
	s.change(c.key, func(k *specKey) {
		s.note(c, k, c.priority != 0)
		if k.failures == 0 {
			k.failed = s.now
		}
		k.failures++
		wait := delay(k)
		if final || k.spent || s.attempts > 0 && k.failures >= s.attempts || s.elapsed > 0 && s.now.Sub(k.failed) >= s.elapsed {
			k.backoff, k.whens = time.Time{}, 0
			switch k.state {
			case specAbsent:
				k.state = specParked
				s.tell("parked ", c.key, k.failures)
			case specReady:
				k.reset()
			default:
				k.spent = true
			}
			return
		}
		again = true
		s.tell("delayed ", c.key, max(wait, 0))
		switch {
		case k.state == specReady || k.state == specDirty:
		case wait <= 0:
			s.act(c.key, k)
		default:
			k.backoff = specPick(c.policy, k.backoff, s.now.Add(wait))
		}
	})
	return again
}

func (k *specKey) reset() { k.failures, k.whens, k.failed, k.spent = 0, 0, time.Time{}, false }

func (s *spec) forget(key string) {
	if s.keys[key].state == specParked {
		return
	}
	s.change(key, func(k *specKey) {
		k.reset()
		k.backoff = time.Time{}
	})
}

func (s *spec) done(key string) {
	k := s.keys[key]
	if k.state != specProcess && k.state != specDirty {
		s.tell("stray ", key)
		return
	}
	if s.timestamps { // or there is no such hook
		s.tell("done ", key, s.now.Sub(k.entered))
	}
	s.change(key, func(k *specKey) {
		switch {
		case k.state == specDirty:
			if k.spent {
				k.reset()
			}
			k.state = specReady
		case k.spent:
			k.state, k.spent = specParked, false
			s.tell("parked ", key, k.failures)
		default:
			k.state = specAbsent
		}
	})
}

// end is a shutdown.
func (s *spec) end() {
	if s.shutdown {
		return
	}
	s.shutdown = true
	type quiet struct {
		key string
		at  time.Time
	}
	var ends []quiet
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		if at := s.keys[key].quiet; !at.IsZero() {
			ends = append(ends, quiet{key, at})
		}
		s.change(key, func(k *specKey) { k.wake, k.backoff = time.Time{}, time.Time{} })
	}
	slices.SortFunc(ends, func(a, b quiet) int { return a.at.Compare(b.at) })
	for _, e := range ends {
		s.change(e.key, func(k *specKey) { s.act(e.key, k) })
	}
}

func (s *spec) idle() bool {
	for _, k := range s.keys {
		if k.shown == workqueue.Ready || k.shown == workqueue.InProcess || !k.quiet.IsZero() {
			return false
		}
	}
	return true
}

// settle lets all waiting calls proceed until they block or return.
func (s *spec) settle() {
	for _, _, ok := s.next(); ok && s.getters > 0; _, _, ok = s.next() {
		s.getters--
		s.handOut()
	}
	s.rest()
	over := s.shutdown
	for _, k := range s.keys {
		if k.state == specReady || k.state == specDirty && !s.get {
			over = false
		}
	}
	if over {
		s.ended += s.getters
		s.getters = 0
	}
}

// rest releases all that wait for the queue to be idle, if it is.
func (s *spec) rest() {
	if s.idle() {
		s.idled[endedNil] += s.idlers
		s.drained[endedNil] += s.drains
		s.idlers, s.drains = 0, 0
	}
}
