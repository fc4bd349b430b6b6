package workqueue_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// What the contract says of priorities, groups, turns, and of the passing of time.

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

// handOut dispatches the next key, and gives the turn to the next group.
func (s *spec) handOut() {
	key, p, _ := s.next()
	s.turns[p] = append(s.turns[p][1:], s.turns[p][0])
	s.take(key)
}

// take dispatches a key.
func (s *spec) take(key string) {
	if s.timestamps {
		s.tell("dispatched ", key, s.now.Sub(s.keys[key].entered))
	}
	s.change(key, func(k *specKey) { k.state = specProcess })
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
