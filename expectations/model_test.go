package expectations_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/expectations"
)

const ttl = time.Minute

// model is the common behavior of the four types, implemented the slow way: until when each key waits, whether a caller has asked, and
// the calls of each listener.
type model struct {
	until map[string]time.Time
	asked map[string]bool

	reported, expired []string // by OnExpired, and what the model expects
	notified, met     []string // by the function given to Notify, and what the model expects
}

func newModel() *model {
	return &model{until: make(map[string]time.Time), asked: make(map[string]bool)}
}

func (m *model) config() expectations.Config[string] {
	return expectations.Config[string]{TTL: ttl, OnExpired: func(key string) { m.reported = append(m.reported, key) }}
}

// expire drops what has expired, and calls drop for each key of it.
func (m *model) expire(drop func(key string)) {
	now := time.Now()
	for _, key := range []string{"a", "b"} {
		at, waits := m.until[key]
		if waits && !now.Before(at) {
			delete(m.until, key)
			delete(m.asked, key)
			drop(key)
			m.expired = append(m.expired, key)
		}
	}
}

// meet notes that key waits for nothing.
func (m *model) meet(key string) {
	if m.asked[key] {
		m.met = append(m.met, key)
	}
	delete(m.asked, key)
	delete(m.until, key)
}

// subject is one of the four types, with its model.
type subject interface {
	actions() []func()
	satisfied(key string) bool
	drop(key string) // it has expired
	common() (*model, asker)
}

// asker is what the four types have in common.
type asker interface {
	Expires(key string) (time.Time, bool)
	Peek(key string) (at time.Time, waiting, asked bool)
	Notify(f func(key string)) func()
	CheckInvariants() error
}

// ask is an action: a caller asks about key.
func (m *model) ask(key string, satisfied func(key string) bool) {
	satisfied(key)
	if _, waits := m.until[key]; waits {
		m.asked[key] = true
	}
}

// check is called after each action.
func check(s subject) error {
	m, real := s.common()
	m.expire(s.drop)
	for _, key := range []string{"a", "b"} {
		at, waiting, asked := real.Peek(key)
		if until, want := m.until[key]; waiting != want || at != until || asked != m.asked[key] {
			return fmt.Errorf("%s: expires at %v, %v, asked %v; want %v, %v, %v", key, at, waiting, asked, until, want, m.asked[key])
		}
	}
	if !sameSet(m.reported, m.expired) || !sameSet(m.notified, m.met) {
		return fmt.Errorf("reported %v, want %v; notified %v, want %v", m.reported, m.expired, m.notified, m.met)
	}
	return real.CheckInvariants()
}

// checkAnswers is called after a whole history.
func checkAnswers(s subject) error {
	m, real := s.common()
	for _, key := range []string{"a", "b"} {
		satisfied := s.satisfied(key)
		at, waiting := real.Expires(key)
		until, want := m.until[key]
		if satisfied == want || waiting != want || at != until {
			return fmt.Errorf("%s: expires at %v, %v; want %v, %v", key, at, waiting, until, want)
		}
	}
	return nil
}

// sameSet compares regardless of order: what a call reports may have been set in any.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// modelVariable makes the models try every history of four actions instead of three: EXPECTATIONS_MODEL=full.
const modelVariable = "EXPECTATIONS_MODEL"

// everyHistory runs every short history of actions and many long ones, and checks after each action.
func everyHistory(t *testing.T, start func() subject) {
	length, long := 3, 2000
	if os.Getenv(modelVariable) == "full" {
		length = 4
	}
	if underRace {
		long /= 10
	}
	synctest.Test(t, func(t *testing.T) {
		run := func(history []int) {
			s := start()
			m, real := s.common()
			real.Notify(func(key string) { m.notified = append(m.notified, key) })
			actions := s.actions()
			for i, a := range history {
				actions[a]()
				if err := check(s); err != nil {
					t.Fatalf("%v: %v", history[:i+1], err)
				}
			}
			if err := checkAnswers(s); err != nil {
				t.Fatalf("%v: %v", history, err)
			}
		}
		n := len(start().actions())
		var extend func(history []int)
		extend = func(history []int) {
			if len(history) == length {
				run(history)
				return
			}
			for a := range n {
				extend(append(slices.Clip(history), a))
			}
		}
		extend(nil)
		r := rand.New(rand.NewPCG(1, 2))
		history := make([]int, 12)
		for range long {
			for i := range history {
				history[i] = r.IntN(n)
			}
			run(history)
		}
	})
}

// half lets half of the TTL pass, and whole all of it.
func half()  { time.Sleep(ttl / 2) }
func whole() { time.Sleep(ttl) }

type counted struct {
	*model
	c *expectations.Counted[string]
	n map[string][2]int // creations, deletions
}

func newCounted() subject {
	m := newModel()
	return &counted{m, expectations.NewCounted(m.config()), make(map[string][2]int)}
}

// change makes n what key expects.
func (s *counted) change(key string, n [2]int, renew bool) {
	n = [2]int{max(n[0], 0), max(n[1], 0)}
	_, waits := s.until[key]
	switch {
	case n == [2]int{}:
		s.meet(key)
	case renew || !waits:
		s.until[key] = time.Now().Add(ttl)
	}
	s.n[key] = n
}

func (s *counted) add(key string, creations, deletions int, renew bool) {
	s.change(key, [2]int{s.n[key][0] + creations, s.n[key][1] + deletions}, renew)
}

func (s *counted) actions() []func() {
	return []func(){
		func() { s.c.ExpectCreations("a", 2); s.add("a", 2, 0, true) },
		func() { s.c.ExpectDeletions("a", 1); s.add("a", 0, 1, true) },
		func() { s.c.ExpectCreations("b", 1); s.add("b", 1, 0, true) },
		func() { s.c.ExpectCreations("a", 0); s.add("a", 0, 0, true) },
		func() { s.c.CreationObserved("a"); s.add("a", -1, 0, false) },
		func() { s.c.DeletionObserved("a"); s.add("a", 0, -1, false) },
		func() { s.c.SetExpectations("a", 1, 2); s.change("a", [2]int{1, 2}, true) },
		func() { s.c.SetExpectations("a", 0, 0); s.change("a", [2]int{}, true) },
		func() { s.c.RaiseExpectations("a", 1, 0); s.add("a", 1, 0, false) },
		func() { s.c.LowerExpectations("a", 2, 2); s.add("a", -2, -2, false) },
		func() { s.c.DeleteExpectations("a"); s.change("a", [2]int{}, false) },
		func() { s.ask("a", s.satisfied) },
		half,
		whole,
	}
}

func (s *counted) common() (*model, asker)   { return s.model, s.c }
func (s *counted) satisfied(key string) bool { return s.c.SatisfiedExpectations(key) }
func (s *counted) drop(key string)           { delete(s.n, key) }

func TestEveryShortCountedHistoryMatchesModel(t *testing.T) { everyHistory(t, newCounted) }

type tracked struct {
	*model
	t   *expectations.Tracked[string, int]
	ids map[string]map[string]bool // by key; "+1" is the creation of 1

	early map[string]bool // what a has seen since Begin; nil when it does not act
}

func newTracked() subject {
	m := newModel()
	return &tracked{m, expectations.NewTracked[string, int](m.config()), map[string]map[string]bool{"a": {}, "b": {}}, nil}
}

func (s *tracked) expect(key string, events ...string) {
	s.until[key] = time.Now().Add(ttl)
	for _, e := range events {
		if key != "a" || !s.early[e] {
			s.ids[key][e] = true
		}
	}
	s.settle(key)
}

func (s *tracked) observe(key, event string) {
	if s.early != nil {
		s.early[event] = true
	}
	delete(s.ids[key], event)
	s.settle(key)
}

func (s *tracked) settle(key string) {
	if len(s.ids[key]) == 0 && (key != "a" || s.early == nil) {
		s.meet(key)
	}
}

func (s *tracked) forget(key string) {
	clear(s.ids[key])
	if key == "a" {
		s.early = nil
	}
	s.settle(key)
}

func (s *tracked) actions() []func() {
	return []func(){
		func() { s.t.ExpectCreations("a", 1, 2, 1); s.expect("a", "+1", "+2") },
		func() { s.t.ExpectCreations("a", 2); s.expect("a", "+2") },
		func() { s.t.ExpectCreations("a"); s.t.ExpectDeletions("a") },
		func() { s.t.ExpectDeletions("a", 1); s.expect("a", "-1") },
		func() { s.t.ExpectDeletions("b", 1, 2); s.expect("b", "-1", "-2") },
		func() { s.t.CreationObserved("a", 1); s.observe("a", "+1") },
		func() { s.t.CreationObserved("a", 2); s.observe("a", "+2") },
		func() { s.t.DeletionObserved("a", 1); s.observe("a", "-1") },
		func() { s.t.DeletionObserved("a", 2); s.observe("a", "-2") },
		func() { s.t.DeleteExpectations("a"); s.forget("a") },
		func() { s.t.Begin("a"); s.early = map[string]bool{}; s.until["a"] = time.Now().Add(ttl) },
		func() { s.t.End("a"); s.early = nil; s.settle("a") },
		func() { s.ask("a", s.satisfied) },
		half,
		whole,
	}
}

func (s *tracked) common() (*model, asker)   { return s.model, s.t }
func (s *tracked) satisfied(key string) bool { return s.t.SatisfiedExpectations(key) }
func (s *tracked) drop(key string)           { s.forget(key) }

func TestEveryShortTrackedHistoryMatchesModel(t *testing.T) { everyHistory(t, newTracked) }

type versions struct {
	*model
	v    *expectations.Versions[string]
	want map[string]uint64
	seen uint64
}

func newVersions() subject {
	m := newModel()
	return &versions{model: m, v: expectations.NewVersions(m.config()), want: make(map[string]uint64)}
}

func (s *versions) expect(key string, version uint64) {
	s.v.ExpectVersion(key, version)
	if version > s.want[key] && version > s.seen {
		s.want[key] = version
		s.until[key] = time.Now().Add(ttl)
	}
}

func (s *versions) observe(version uint64) {
	s.v.VersionObserved(version)
	if version == 0 && s.seen > 0 { // a new history: waiting keys now wait for its first version
		s.seen = 0
		for key := range s.want {
			s.want[key] = 1
		}
	}
	s.seen = max(s.seen, version)
	for key, want := range s.want {
		if want <= s.seen {
			s.forget(key)
		}
	}
}

func (s *versions) forget(key string) {
	delete(s.want, key)
	s.meet(key)
}

func (s *versions) actions() []func() {
	return []func(){
		func() { s.expect("a", 0) },
		func() { s.expect("a", 1) },
		func() { s.expect("a", 3) },
		func() { s.expect("b", 2) },
		func() { s.expect("b", 4) },
		func() { s.observe(0) },
		func() { s.observe(1) },
		func() { s.observe(2) },
		func() { s.observe(3) },
		func() { s.ask("a", s.satisfied) },
		func() { s.ask("b", s.satisfied) },
		func() { s.v.DeleteExpectations("a"); s.forget("a") },
		func() { s.v.Reset(); s.seen = 0; s.forget("a"); s.forget("b") },
		half,
		whole,
		func() { whole(); s.observe(2) }, // a key that is satisfied at the last moment has not expired
	}
}

func (s *versions) common() (*model, asker)   { return s.model, s.v }
func (s *versions) satisfied(key string) bool { return s.v.SatisfiedExpectations(key) }
func (s *versions) drop(key string)           { delete(s.want, key) }

func TestEveryShortVersionsHistoryMatchesModel(t *testing.T) { everyHistory(t, newVersions) }

// values has a cache with two numbers, and expects numbers that are high enough.
type values struct {
	*model
	v    *expectations.Values[string]
	have map[string]int // what the cache shows
	want map[string][]int
}

func newValues() subject {
	m := newModel()
	return &values{model: m, v: expectations.NewValues(m.config()), have: map[string]int{}, want: map[string][]int{}}
}

func (s *values) expect(key string, n int) {
	s.v.ExpectValue(key, func() bool { return s.have[key] >= n })
	s.want[key] = append(s.want[key], n)
	s.until[key] = time.Now().Add(ttl)
	s.settle(key)
}

// settle is what each look into the cache does.
func (s *values) settle(key string) {
	if want := s.want[key]; len(want) > 0 && slices.Max(want) <= s.have[key] {
		s.forget(key)
	}
}

func (s *values) observe() {
	s.v.ValuesObserved()
	s.settle("a")
	s.settle("b")
}

func (s *values) forget(key string) {
	delete(s.want, key)
	s.meet(key)
}

func (s *values) actions() []func() {
	return []func(){
		func() { s.expect("a", 1) },
		func() { s.expect("a", 2) },
		func() { s.expect("b", 1) },
		func() { s.have["a"]++ },
		func() { s.have["a"] = 0 },
		func() { s.have["b"]++; s.observe() },
		func() { s.observe() },
		func() { s.ask("a", s.satisfied) },
		func() { s.ask("b", s.satisfied) },
		func() { s.v.DeleteExpectations("a"); s.forget("a") },
		half,
		whole,
	}
}

func (s *values) common() (*model, asker) { return s.model, s.v }
func (s *values) satisfied(key string) bool {
	ok := s.v.SatisfiedExpectations(key)
	s.expire(s.drop) // before it looks
	s.settle(key)
	return ok
}
func (s *values) drop(key string) { delete(s.want, key) }

func TestEveryShortValuesHistoryMatchesModel(t *testing.T) { everyHistory(t, newValues) }
