package workqueue_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// The model in this file was written from the package documentation alone, by somebody who had not read the code. Keep it
// so: if the model and the queue disagree, the documentation decides which of them is wrong.

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
}

// specRules are the parts of a Config that the model obeys.
type specRules struct {
	debounce, limit time.Duration
	attempts        int
	elapsed         time.Duration
	own             bool                       // the limiter counts for itself
	delay           func(n int) time.Duration  // of failure n
	get             bool                       // getters call Get, not Next
	limiter         func() specLimiter[string] // a limiter of its own for each queue, or nil
}

type specLimiter[K comparable] = workqueue.RateLimiter[K]

// spec is the model of a queue: what its documentation says.
type spec struct {
	specRules
	now  time.Time
	keys map[string]specKey
	line []string // the ready keys, in order

	shutdown bool
	strays   int // calls of Done that were reported

	getters int // calls of Next or Get that wait
	told    int // of those that have ended: told that the queue is shut down
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

func (s *spec) clone() *spec {
	c := *s
	c.keys, c.line = maps.Clone(s.keys), slices.Clone(s.line)
	return &c
}

// specCall is one call of the queue, or of a group of goroutines that wait in it.
type specCall struct {
	what   string
	key    string
	delay  time.Duration
	policy workqueue.Policy
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
	return text
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

// make makes a call, and returns what it answers, "" if it answers nothing.
func (s *spec) make(c specCall) (answer string) {
	k := s.keys[c.key]
	defer func() {
		if c.key != "" {
			s.keys[c.key] = k
		}
	}()
	switch c.what {
	case "Add":
		s.add(c.key, &k)
	case "AddAfter":
		s.addAfter(c, &k)
	case "AddWith After":
		s.addAfter(c, &k)
		return fmt.Sprint(!s.shutdown)
	case "AddRateLimited":
		s.fail(c, &k, s.delayOf(&k))
	case "AddWith RateLimited": // brings its own delay
		return fmt.Sprint(s.fail(c, &k, func() time.Duration { return c.delay }))
	case "Forget":
		if k.state != specParked {
			s.reset(&k)
			k.backoff = time.Time{}
		}
	case "Cancel":
		any := k.state == specReady || k.state == specDirty || !k.wake.IsZero() || !k.backoff.IsZero() || !k.quiet.IsZero()
		switch k.state {
		case specReady:
			k.state = specAbsent
			s.leave(c.key)
		case specDirty:
			k.state = specProcess
		}
		k.wake, k.backoff, k.quiet = time.Time{}, time.Time{}, time.Time{}
		return fmt.Sprint(any)
	case "Done":
		s.done(c.key, &k)
	case "TryGet":
		if len(s.line) == 0 {
			return "none"
		}
		first := s.line[0]
		s.handOut() // never the key of c, which has none
		return first
	case "DropParked":
		parked := k.state == specParked
		if parked {
			k.state = specAbsent
			s.reset(&k)
		}
		return fmt.Sprint(parked)
	case "RetryParked":
		parked := k.state == specParked && !s.shutdown
		if parked {
			s.act(c.key, &k)
		}
		return fmt.Sprint(parked)
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
	case "Next":
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

// add is Add, which may be debounced.
func (s *spec) add(key string, k *specKey) {
	switch {
	case s.shutdown, k.state == specReady, k.state == specDirty:
	case s.debounce == 0:
		s.act(key, k)
	default:
		if k.quiet.IsZero() {
			k.first = s.now
		}
		k.quiet = s.now.Add(s.debounce)
		if last := k.first.Add(s.limit); last.Before(k.quiet) {
			k.quiet = last
		}
	}
}

// act is the column Add: the key becomes ready or dirty now.
func (s *spec) act(key string, k *specKey) {
	switch k.state {
	case specAbsent:
		k.state = specReady
		s.line = append(s.line, key)
	case specProcess:
		k.state = specDirty
	case specParked:
		k.state = specReady
		s.reset(k)
		s.line = append(s.line, key)
	default:
		return
	}
	k.backoff, k.quiet = time.Time{}, time.Time{} // both wait for this attempt
}

func (s *spec) addAfter(c specCall, k *specKey) {
	switch {
	case s.shutdown:
	case c.delay <= 0:
		s.act(c.key, k)
	default:
		k.wake = specPick(c.policy, k.wake, s.now.Add(c.delay))
	}
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

// delayOf returns what the limiter says of the next failure.
func (s *spec) delayOf(k *specKey) func() time.Duration {
	return func() time.Duration {
		if s.own {
			k.whens++
			return s.delay(k.whens)
		}
		return s.delay(k.failures)
	}
}

// fail is a failure. It reports whether the key comes back for it.
func (s *spec) fail(c specCall, k *specKey, delay func() time.Duration) bool {
	if s.shutdown || k.state == specParked {
		return false
	}
	if k.failures == 0 {
		k.failed = s.now
	}
	k.failures++
	wait := delay()
	if s.attempts > 0 && k.failures >= s.attempts || s.elapsed > 0 && s.now.Sub(k.failed) >= s.elapsed {
		k.backoff, k.whens = time.Time{}, 0
		switch k.state {
		case specAbsent:
			k.state = specParked
		case specReady:
			s.reset(k)
		default:
			k.spent = true
		}
		return false
	}
	switch {
	case k.state == specReady || k.state == specDirty:
	case wait <= 0:
		s.act(c.key, k)
	default:
		k.backoff = specPick(c.policy, k.backoff, s.now.Add(wait))
	}
	return true
}

func (s *spec) reset(k *specKey) {
	k.failures, k.whens, k.failed, k.spent = 0, 0, time.Time{}, false
}

func (s *spec) done(key string, k *specKey) {
	switch k.state {
	case specProcess:
		k.state = specAbsent
		if k.spent {
			k.state, k.spent = specParked, false
		}
	case specDirty:
		if k.spent {
			s.reset(k)
		}
		k.state = specReady
		s.line = append(s.line, key)
	default:
		s.strays++
	}
}

func (s *spec) leave(key string) {
	s.line = slices.DeleteFunc(s.line, func(k string) bool { return k == key })
}

// handOut hands out the first key in line.
func (s *spec) handOut() {
	key := s.line[0]
	k := s.keys[key]
	k.state = specProcess
	s.keys[key], s.line = k, s.line[1:]
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
	for key, k := range s.keys {
		k.wake, k.backoff = time.Time{}, time.Time{}
		s.keys[key] = k
		if !k.quiet.IsZero() {
			ends = append(ends, quiet{key, k.quiet})
		}
	}
	slices.SortFunc(ends, func(a, b quiet) int { return a.at.Compare(b.at) })
	for _, e := range ends {
		k := s.keys[e.key]
		s.act(e.key, &k)
		s.keys[e.key] = k
	}
}

func (s *spec) idle() bool {
	for _, k := range s.keys {
		if k.state == specReady || k.state == specProcess || k.state == specDirty || !k.quiet.IsZero() {
			return false
		}
	}
	return true
}

// settle lets all that wait go on as far as they can.
func (s *spec) settle() {
	for s.getters > 0 && len(s.line) > 0 {
		s.getters--
		s.handOut()
	}
	s.rest()
	if !s.shutdown {
		return
	}
	dirty := slices.ContainsFunc(slices.Collect(maps.Values(s.keys)), func(k specKey) bool { return k.state == specDirty })
	if s.get || !dirty {
		s.told += s.getters
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

// next returns when the next deadline is, and how many there are at that time.
func (s *spec) next() (at time.Time, several int) {
	for _, k := range s.keys {
		for _, d := range []time.Time{k.wake, k.backoff, k.quiet} {
			switch {
			case d.IsZero():
			case at.IsZero() || d.Before(at):
				at, several = d, 1
			case d.Equal(at):
				several++
			}
		}
	}
	return at, several
}

// advance lets time pass. It returns false if two deadlines fall together, of which the contract says no order.
func (s *spec) advance(to time.Time) bool {
	for {
		at, several := s.next()
		if at.IsZero() || at.After(to) {
			s.now = to
			return true
		}
		if several > 1 {
			return false
		}
		s.now = at
		for key, k := range s.keys {
			switch at {
			case k.wake:
				k.wake = time.Time{}
			case k.backoff:
				k.backoff = time.Time{}
			case k.quiet:
				k.quiet = time.Time{}
			default:
				continue
			}
			s.act(key, &k)
			s.keys[key] = k
			break
		}
		s.settle()
	}
}

// String returns all that a user can observe.
func (s *spec) String() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		k := s.keys[key]
		state, dirty := workqueue.State(0), false
		switch k.state {
		case specReady:
			state = workqueue.Ready
		case specProcess:
			state = workqueue.InProcess
		case specDirty:
			state, dirty = workqueue.InProcess, true
		case specParked:
			state = workqueue.Parked
		default:
			switch {
			case !k.wake.IsZero() || !k.backoff.IsZero() || !k.quiet.IsZero():
				state = workqueue.Delayed
			case k.failures > 0:
				state = workqueue.Remembered
			default:
				continue
			}
		}
		next := k.wake
		if next.IsZero() || !k.backoff.IsZero() && k.backoff.Before(next) {
			next = k.backoff
		}
		writeKey(&b, key, state, dirty, next, k.quiet, k.failures)
	}
	writeRest(&b, len(s.line), s.shutdown, s.idle(), s.strays)
	fmt.Fprintf(&b, "waiting: getters %d drains %d idlers %d; getters told %d stopped %d; drained %v idled %v\n",
		s.getters, s.drains, s.idlers, s.told, s.stopped, s.drained, s.idled)
	return b.String()
}

func writeKey(b *strings.Builder, key string, state workqueue.State, dirty bool, next, quiet time.Time, failures int) {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.Format("04:05.000000000")
	}
	fmt.Fprintf(b, "%s: %v dirty=%v next=%s quiet=%s failures=%d\n", key, state, dirty, at(next), at(quiet), failures)
}

func writeRest(b *strings.Builder, ready int, shutdown, idle bool, strays int) {
	fmt.Fprintf(b, "ready %d shutdown %v idle %v strays %d\n", ready, shutdown, idle, strays)
}
