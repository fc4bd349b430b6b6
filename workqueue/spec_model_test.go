package workqueue_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// The model in this file follows the documentation, never the code. Keep it so: if the model and the
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

	failures int       // the count of the queue: of those that count
	reported int       // all failures
	paced    time.Time // the end of the latest backoff: failures before it do not count
	whens    int       // the failures that a limiter with a count of its own has been asked about
	failed   time.Time // the first of the failures
	spent    bool      // in process, and to be parked at the Done

	unfinished time.Time // the end of the first attempt in Run that did not finish, if that is limited
	conflicts  int       // in a row, in Run
	until      time.Time // the end of the wait after the latest of them

	priority int
	raised   bool     // in process, and added with a priority since
	reasons  []string // never changed in place

	shown   workqueue.State // the state in a Snapshot; 0 for none
	entered time.Time       // when it got into this state
	rank    int             // the greater, the later it did
	age     time.Time       // since when a ready key counts as ready
	added   time.Time       // when it was added, if it is ready or dirty
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
	paused   bool
	hooks    []string // calls of hooks since the last comparison
	totals   workqueue.Totals

	getters int // calls of Take or Get that wait
	ended   int // of those that have ended with the shutdown
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
	c.keys, c.hooks, c.turns = maps.Clone(s.keys), slices.Clone(s.hooks), map[int][]string{}
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
	replace  bool
	priority int
	set      bool // AddOptions.PrioritySet
}

func (c specCall) String() string {
	text := c.what
	if c.key != "" {
		text += " " + c.key
	}
	if c.delay != 0 {
		text += " " + c.delay.String()
	}
	if c.replace {
		text += " replace"
	}
	if c.priority != 0 {
		text += fmt.Sprintf(" priority %d", c.priority)
	}
	if c.set {
		text += " set"
	}
	return text
}

// reason is the reason that goes with the call.
func (c specCall) reason() string {
	if !c.replace && c.priority == 0 && !c.set {
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
	case k.failures > 0, k.conflicts > 0, !k.unfinished.IsZero():
		return workqueue.Remembered
	default:
		return 0
	}
}

// hook is a call of a hook, which the totals count.
func (s *spec) hook(name, key string, with ...any) {
	s.hooks = append(s.hooks, fmt.Sprint(append([]any{name, " ", key}, with...)...))
	switch name {
	case "added":
		s.totals.Added++
	case "delayed":
		s.totals.Delayed++
	case "dispatched":
		s.totals.Waited.Sum += with[len(with)-1].(time.Duration)
	case "done":
		s.totals.Worked.Sum += with[0].(time.Duration)
	}
}

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
	case "Park":
		s.fail(c, true, func(*specKey) time.Duration { return 0 })
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
		s.dispatch() // never the key of c, which has none
		return s.item(key)
	case "TryTakeKey":
		k := s.keys[c.key]
		if k.state != specReady || !s.mayStart(c.key) || s.paused {
			return "none"
		}
		s.take(c.key)
		return s.item(c.key)
	case "Run nil", "Run stop", "Run error", "Run Goexit", "Run panic", "Run permanent", "Run after", "Run not yet", "Run soon", "Run conflict":
		key, _, ok := s.next()
		if !ok {
			return "none"
		}
		s.dispatch()
		switch c.what {
		case "Run nil":
			s.forget(key)
		case "Run stop":
			if !s.shutdown {
				s.change(key, func(k *specKey) { s.act(key, k) })
			}
		case "Run error":
			s.failWith(key, "broken", s.limiterDelay)
		case "Run panic":
			s.failWith(key, "panic: stale", s.limiterDelay)
		case "Run Goexit":
			s.failWith(key, "work called runtime.Goexit", s.limiterDelay)
		case "Run after":
			s.failWith(key, "busy", func(*specKey) time.Duration { return 3 * time.Second })
		case "Run permanent":
			s.giveUp(key, "gone")
		case "Run not yet":
			s.resume(key, "waiting", 0)
		case "Run soon":
			s.resume(key, "waiting", 2*time.Second)
		case "Run conflict":
			s.conflict(key)
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
	case "Pause":
		s.paused = true
	case "Resume":
		s.paused = false
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
	if !raise {
		return
	}
	begins := k.shown == 0 || k.shown == workqueue.Remembered || c.set && k.state == specProcess && !k.raised
	k.raised = true
	if begins || c.priority > k.priority {
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
		if k.priority != c.priority && (k.state == specReady || k.state == specDirty) {
			s.hook("raised", c.key, " from ", k.priority, " to ", c.priority)
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
	s.hook("added", key, " at ", k.priority)
	k.added = s.now
	k.backoff, k.quiet = time.Time{}, time.Time{} // both wait for this attempt
}

func (s *spec) addAfter(c specCall) {
	if s.shutdown {
		return
	}
	s.hook("delayed", c.key, max(c.delay, 0))
	if c.delay <= 0 {
		s.add(c, false)
		return
	}
	s.change(c.key, func(k *specKey) {
		s.note(c, k, c.priority != 0 || c.set)
		k.wake = specPick(c.replace, k.wake, s.now.Add(c.delay))
	})
}

// specPick returns which of two deadlines of a kind stands.
func specPick(replace bool, stands, comes time.Time) time.Time {
	if stands.IsZero() || replace || comes.Before(stands) {
		return comes
	}
	return stands
}

// limiterDelay returns what the limiter says of the latest failure.
func (s *spec) limiterDelay(k *specKey) time.Duration {
	if s.own {
		k.whens++
		return s.delay(k.whens)
	}
	return s.delay(k.failures)
}

// failWith is a failure that Run counts, but no conflict.
func (s *spec) failWith(key, reason string, delay func(*specKey) time.Duration) {
	k := s.keys[key]
	k.conflicts, k.until = 0, time.Time{}
	s.keys[key] = k
	s.reason(key, reason)
	s.fail(specCall{key: key}, false, delay)
}

// giveUp is an end that parks the key in Run.
func (s *spec) giveUp(key, reason string) {
	s.reason(key, reason)
	s.fail(specCall{key: key}, true, func(*specKey) time.Duration { return 0 })
}

// conflict is an attempt in Run that has read stale data.
func (s *spec) conflict(key string) {
	k := s.keys[key]
	early := s.now.Before(k.until)
	switch {
	case k.conflicts == 8 && !early:
		s.reason(key, "stale")
		s.fail(specCall{key: key}, false, s.limiterDelay)
		return
	case !early && !s.shutdown:
		k.until = s.now.Add(5 * time.Millisecond << k.conflicts)
		k.conflicts++
		s.keys[key] = k
	}
	s.resumeAt(key, "stale", k.until)
}

// resume is an attempt in Run that is not finished and no conflict, and continues after d, or when the key is added.
func (s *spec) resume(key, reason string, d time.Duration) {
	var at time.Time
	if d > 0 {
		at = s.now.Add(d)
	}
	if k := s.keys[key]; !s.shutdown {
		k.conflicts, k.until = 0, time.Time{}
		s.keys[key] = k
	}
	s.resumeAt(key, reason, at)
}

// resumeAt schedules the next attempt at a time, or not if that is zero.
func (s *spec) resumeAt(key, reason string, at time.Time) {
	if s.shutdown {
		return
	}
	if k := s.keys[key]; s.elapsed > 0 {
		if k.unfinished.IsZero() {
			k.unfinished = s.now
			s.keys[key] = k
		}
		left := s.left(&k)
		if left <= 0 {
			s.giveUp(key, reason)
			return
		}
		if end := s.now.Add(left); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	s.reason(key, reason)
	s.change(key, func(k *specKey) {
		if k.state == specProcess && !at.IsZero() {
			k.backoff = specPick(false, k.backoff, at)
		}
	})
}

// left returns how much time is left to k, which has failed or did not finish.
func (s *spec) left(k *specKey) time.Duration {
	since := k.failed
	if since.IsZero() || !k.unfinished.IsZero() && k.unfinished.Before(since) {
		since = k.unfinished
	}
	return s.elapsed - s.now.Sub(since)
}

// reason is why Run adds a key.
func (s *spec) reason(key, reason string) {
	if k := s.keys[key]; !s.shutdown {
		k.reasons = append(slices.Clone(k.reasons), reason)
		k.reasons = k.reasons[max(0, len(k.reasons)-8):]
		s.keys[key] = k
	}
}

// fail is a failure. It reports whether the key comes back for it.
func (s *spec) fail(c specCall, final bool, delay func(*specKey) time.Duration) (again bool) {
	if s.shutdown || s.keys[c.key].state == specParked {
		return false
	}
	s.change(c.key, func(k *specKey) {
		s.note(c, k, c.priority != 0 || c.set)
		early := !final && s.now.Before(k.paced)
		if k.reported == 0 {
			k.failed = s.now
		}
		if k.reported++; !early {
			k.failures++
		}
		wait := delay(k)
		if final || k.spent || s.attempts > 0 && k.failures >= s.attempts || s.elapsed > 0 && s.left(k) <= 0 {
			k.backoff, k.whens = time.Time{}, 0
			switch k.state {
			case specAbsent:
				k.state = specParked
				s.hook("parked", c.key, k.failures)
			case specReady:
				k.reset()
			default:
				k.spent = true
			}
			return
		}
		again = true
		s.hook("delayed", c.key, max(wait, 0))
		at := s.now.Add(wait)
		if early {
			at = specPick(c.replace, k.paced, at)
		}
		switch {
		case k.state == specReady || k.state == specDirty:
			k.paced = at
		case !at.After(s.now):
			k.paced = at
			s.act(c.key, k)
		default:
			k.backoff = specPick(c.replace, k.backoff, at)
			k.paced = k.backoff
		}
	})
	return again
}

func (k *specKey) reset() {
	k.failures, k.reported, k.whens, k.failed, k.paced, k.spent = 0, 0, 0, time.Time{}, time.Time{}, false
	k.unfinished, k.conflicts, k.until = time.Time{}, 0, time.Time{}
}

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
		s.hook("stray", key)
		return
	}
	if s.timestamps { // or there is no such hook
		s.hook("done", key, s.now.Sub(k.entered))
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
			s.hook("parked", key, k.failures)
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
		neverLeaves := s.shutdown && s.paused
		if k.shown == workqueue.Ready && !neverLeaves || k.shown == workqueue.InProcess || !k.quiet.IsZero() {
			return false
		}
	}
	return true
}

// settle lets all waiting calls proceed until they block or return.
func (s *spec) settle() {
	for _, _, ok := s.next(); ok && s.getters > 0; _, _, ok = s.next() {
		s.getters--
		s.dispatch()
	}
	s.rest()
	over := s.shutdown
	for _, k := range s.keys {
		if (k.state == specReady || k.state == specDirty && !s.get) && !s.paused {
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

// groupOf is Config.Group.
func groupOf(key string) string { return []string{"even", "odd"}[key[0]%2] }

func (s *spec) group(key string) string {
	if !s.groups {
		return ""
	}
	return groupOf(key)
}

// mayStart reports whether the group of a key may have one more key in process.
func (s *spec) mayStart(key string) bool {
	n := 0
	for other, k := range s.keys {
		if k.shown == workqueue.InProcess && s.group(other) == s.group(key) {
			n++
		}
	}
	return !s.groups || s.groupLimit == 0 || n < s.groupLimit
}

// settleTurns removes the groups that have nothing to dispatch from the turns of each priority, and adds those that do.
func (s *spec) settleTurns() {
	may := map[int][]string{}
	for key, k := range s.keys {
		if k.state == specReady && s.mayStart(key) && !slices.Contains(may[k.priority], s.group(key)) {
			may[k.priority] = append(may[k.priority], s.group(key))
		}
	}
	for p := range s.turns {
		s.turns[p] = slices.DeleteFunc(s.turns[p], func(g string) bool { return !slices.Contains(may[p], g) })
	}
	for p := range may {
		for _, g := range may[p] { // one at most is new, because a change concerns one key
			if !slices.Contains(s.turns[p], g) {
				s.turns[p] = append(s.turns[p], g)
			}
		}
	}
}

// next returns the key that leaves next.
func (s *spec) next() (best string, priority int, ok bool) {
	if s.paused {
		return "", 0, false
	}
	aging := cmp.Or(s.aging, 10*time.Second)
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(s.turns))) {
		if len(s.turns[p]) == 0 {
			continue
		}
		first, found := "", false
		for key, k := range s.keys {
			if k.state == specReady && k.priority == p && s.group(key) == s.turns[p][0] && (!found || k.rank < s.keys[first].rank) {
				first, found = key, true
			}
		}
		worth := time.Duration(min(int64(priority)-int64(p), 100_000)) * aging // or more than a history takes
		if !ok || aging > 0 && s.keys[first].age.Add(worth).Before(s.keys[best].age) {
			best, priority, ok = first, p, true
		}
	}
	return best, priority, ok
}

// dispatch dispatches the next key, and gives the turn to the next group.
func (s *spec) dispatch() {
	key, p, _ := s.next()
	s.turns[p] = append(s.turns[p][1:], s.turns[p][0])
	s.take(key)
}

// take dispatches a key.
func (s *spec) take(key string) {
	if s.timestamps {
		s.hook("dispatched", key, " at ", s.keys[key].priority, " ", s.now.Sub(s.keys[key].added))
	}
	s.change(key, func(k *specKey) { k.state, k.raised = specProcess, false })
}

// upcoming returns when the next deadline is, or a count of failures is forgotten, and how many there are at that time.
func (s *spec) upcoming() (at time.Time, several int) {
	for _, k := range s.keys {
		forgotten := time.Time{}
		if k.shown == workqueue.Remembered && !s.shutdown {
			forgotten = k.entered.Add(time.Hour)
		}
		for _, d := range []time.Time{k.wake, k.backoff, k.quiet, forgotten} {
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
		at, several := s.upcoming()
		if at.IsZero() || at.After(to) {
			s.now = to
			return true
		}
		if several > 1 {
			return false
		}
		s.now = at
		for key, k := range s.keys {
			due := false
			for _, d := range []*time.Time{&k.wake, &k.backoff, &k.quiet} {
				if d.Equal(at) {
					*d, due = time.Time{}, true
				}
			}
			if due {
				s.act(key, &k)
			} else if k.shown == workqueue.Remembered && k.entered.Add(time.Hour).Equal(at) {
				k.reset()
			} else {
				continue
			}
			s.keys[key] = k
			s.settled(key)
			break
		}
		s.settle()
	}
}

// ready returns the keys in the order in which they leave.
func (s *spec) ready() []string {
	keys := []string{}
	first, _, ok := s.next()
	if !ok {
		return keys
	}
	others := false
	for key, k := range s.keys {
		others = others || k.state == specReady && key != first
	}
	if !others { // as in most histories, without a copy of the model
		return append(keys, first)
	}
	c := s.clone()
	for key, _, ok := c.next(); ok; key, _, ok = c.next() {
		keys = append(keys, key)
		c.dispatch()
	}
	return keys
}

// whens returns how often the limiter was asked about each key.
func (s *spec) whens() (whens []int) {
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		whens = append(whens, s.keys[key].whens)
	}
	return whens
}

// String returns all that a user can observe.
func (s *spec) String() string {
	var b strings.Builder
	b.Grow(1024)
	keys := slices.SortedFunc(maps.Keys(s.keys), func(x, y string) int {
		a, b := s.keys[x], s.keys[y]
		switch {
		case a.shown != b.shown:
			return cmp.Compare(a.shown, b.shown)
		case a.shown == workqueue.Delayed:
			return a.due().Compare(b.due())
		default:
			return cmp.Compare(a.rank, b.rank)
		}
	})
	stats := workqueue.Stats{Paused: s.paused}
	oldest, depths := time.Duration(0), map[int]int{}
	for _, key := range keys {
		k := s.keys[key]
		if k.state == specReady || k.state == specDirty {
			depths[k.priority]++
		}
		next := k.wake
		if next.IsZero() || !k.backoff.IsZero() && k.backoff.Before(next) {
			next = k.backoff
		}
		since := k.entered
		if !s.timestamps && k.shown != workqueue.Parked && k.shown != workqueue.Remembered {
			since = time.Time{}
		}
		if !k.due().IsZero() {
			stats.Delayed++
		}
		switch k.shown {
		case workqueue.Ready:
			stats.Ready++
			if s.timestamps {
				oldest = max(oldest, s.now.Sub(k.entered))
			}
		case workqueue.InProcess:
			stats.InProcess++
			if running := s.now.Sub(k.entered); s.timestamps {
				stats.Unfinished += running
				stats.LongestRunning = max(stats.LongestRunning, running)
			}
			if k.state == specDirty {
				stats.Dirty++
			}
		case workqueue.Parked:
			stats.Parked++
		case workqueue.Remembered:
			stats.Remembered++
		}
		info := workqueue.KeyInfo[string]{Key: key, State: k.shown, Dirty: k.state == specDirty, Since: since, Next: next,
			QuietUntil: k.quiet, Priority: k.priority, Group: s.group(key), Failures: k.failures, FirstFailure: k.failed, BackoffUntil: k.paced}
		writeKey(&b, info, k.reported, k.reasons, s.shutdown)
	}
	writeRest(&b, stats, depths, s.totals, oldest, s.ready(), s.shutdown, s.idle(), s.hooks)
	writeNumbers(&b, "\nwaiting getters, drains, idlers", s.getters, s.drains, s.idlers)
	writeNumbers(&b, "getters ended, stopped", s.ended, s.stopped)
	writeNumbers(&b, "drained", s.drained[:]...)
	writeNumbers(&b, "idled", s.idled[:]...)
	return b.String()
}

// due returns the earliest deadline, or the zero time.
func (k *specKey) due() (at time.Time) {
	for _, d := range []time.Time{k.wake, k.backoff, k.quiet} {
		if !d.IsZero() && (at.IsZero() || d.Before(at)) {
			at = d
		}
	}
	return at
}

// writeKey writes what a Snapshot says of a key. A shutdown forgets several keys at once, in no order, so that is not compared.
func writeKey(b *strings.Builder, i workqueue.KeyInfo[string], requeues int, reasons []string, shutdown bool) {
	if i.State == workqueue.Remembered && shutdown {
		i.Key = "?"
		i.Failures, i.FirstFailure, i.BackoffUntil, i.Group, requeues, reasons = 0, time.Time{}, time.Time{}, "", 0, nil
	}
	b.WriteString(i.Key)
	writeFlag(b, i.State.String(), true)
	writeFlag(b, "dirty", i.Dirty)
	writeTime(b, "since", i.Since)
	writeTime(b, "next", i.Next)
	writeTime(b, "quiet", i.QuietUntil)
	writeNumbers(b, "priority", i.Priority)
	writeFlag(b, "group "+i.Group, i.Group != "")
	writeNumbers(b, "failures", i.Failures)
	writeNumbers(b, "requeues", requeues)
	writeTime(b, "first", i.FirstFailure)
	writeTime(b, "backoff until", i.BackoffUntil)
	writeList(b, "reasons", reasons)
	b.WriteByte('\n')
}

func writeRest(b *strings.Builder, stats workqueue.Stats, depths map[int]int, totals workqueue.Totals, oldest time.Duration, ready []string, shutdown, idle bool, hooks []string) {
	writeNumbers(b, "Ready", stats.Ready)
	writeNumbers(b, "InProcess", stats.InProcess)
	writeNumbers(b, "Dirty", stats.Dirty)
	for _, priority := range slices.Sorted(maps.Keys(depths)) {
		if n := depths[priority]; n != 0 {
			writeNumbers(b, "depth at", priority, n)
		}
	}
	writeNumbers(b, "Delayed", stats.Delayed)
	writeNumbers(b, "Parked", stats.Parked)
	writeNumbers(b, "Remembered", stats.Remembered)
	writeNumbers(b, "Unfinished", int(stats.Unfinished))
	writeNumbers(b, "LongestRunning", int(stats.LongestRunning))
	writeNumbers(b, "oldest ready", int(oldest))
	writeNumbers(b, "totals", int(totals.Added), int(totals.Delayed), int(totals.Waited.Sum), int(totals.Worked.Sum))
	writeList(b, "in order", ready)
	writeFlag(b, "paused", stats.Paused)
	writeFlag(b, "shutdown", shutdown)
	writeFlag(b, "idle", idle)
	writeList(b, "hooks called", slices.Sorted(slices.Values(hooks))) // hooks of calls that overlap are called in any order
}

// The tests write a million of these texts. Package fmt would take twice as long.

func writeFlag(b *strings.Builder, name string, set bool) {
	if set {
		b.WriteString(", ")
		b.WriteString(name)
	}
}

func writeNumbers(b *strings.Builder, name string, numbers ...int) {
	var digits [20]byte
	writeFlag(b, name, true)
	for _, n := range numbers {
		b.WriteByte(' ')
		b.Write(strconv.AppendInt(digits[:0], int64(n), 10))
	}
}

func writeTime(b *strings.Builder, name string, t time.Time) {
	if !t.IsZero() {
		var text [20]byte
		writeFlag(b, name, true)
		b.WriteByte(' ')
		b.Write(t.AppendFormat(text[:0], "15:04:05.000000000"))
	}
}

func writeList(b *strings.Builder, name string, list []string) {
	writeFlag(b, name, true)
	for _, text := range list {
		b.WriteString(" \"")
		b.WriteString(text)
		b.WriteByte('"')
	}
}
