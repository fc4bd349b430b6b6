package informer_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// action is one line of a schedule. Actions of different parts touch nothing in common, so that their order makes no
// difference, unless the table meets says so.
type action struct {
	name     string
	part     part
	key      byte                 // of the object that changes, if one does
	possible func(*schedule) bool // it would do something
	do       func(*schedule)
}

type part int

const (
	theSource  part = iota // what changes in the source
	theWatch               // the reflector reads the source
	theCache               // what was read is applied, handlers join
	theFirst               // the first handler is called
	theSecond              // the second one is
	theMembers             // handlers come and go
)

// meets holds the parts that touch something in common, the lower one first.
var meets = map[[2]part]bool{
	{theSource, theWatch}: true, {theWatch, theCache}: true, {theCache, theFirst}: true, {theCache, theSecond}: true,
	{theCache, theMembers}: true, {theFirst, theMembers}: true, {theSecond, theMembers}: true,
}

// meet reports whether the order of a and b makes a difference. That of changes of two keys is taken to make none.
func meet(a, b *action) bool {
	if a.key != 0 && b.key != 0 {
		return a.key == b.key
	}
	return a.part == b.part || meets[[2]part{a.part, b.part}] || meets[[2]part{b.part, a.part}]
}

func exists(name string) func(*schedule) bool {
	return func(w *schedule) bool { _, ok := w.src.now()[name]; return ok }
}

// behind reports that the source has n events that the reflector has not seen, and watches for.
func behind(w *schedule, n int) bool {
	seen, watches := w.driver.Seen()
	return watches && seen >= w.src.missing && int(w.src.version()-seen) >= n
}

// nth returns the nth handler of those that were not removed, and its number, or nil.
func nth(w *schedule, n int) (*view, int) {
	for i, v := range w.joined {
		if v.removed {
			continue
		}
		if n == 0 {
			return v, i
		}
		n--
	}
	return nil, 0
}

func deliver(n int) action {
	part := theFirst + part(min(n, 1))
	return action{fmt.Sprintf("handler %d returns", n), part, 0, func(w *schedule) bool {
		v, i := nth(w, n)
		return v != nil && w.driver.Waits(i)
	}, func(w *schedule) {
		_, i := nth(w, n)
		w.driver.Deliver(i)
	}}
}

// actions is the alphabet of the schedules: the core, what else two keys and two handlers can meet, and the rest.
var actions = []action{
	{"put a", theSource, 'a', nil, func(w *schedule) { w.src.put("a") }},
	{"put b", theSource, 'b', nil, func(w *schedule) { w.src.put("b") }},
	{"delete a", theSource, 'a', exists("a"), func(w *schedule) { w.src.delete("a") }},
	{"delete b", theSource, 'b', exists("b"), func(w *schedule) { w.src.delete("b") }},
	{"compact", theSource, 0, func(w *schedule) bool { return behind(w, 1) }, func(w *schedule) { w.src.missing = w.src.version() }},
	{"list or watch", theWatch, 0, func(w *schedule) bool {
		seen, watches := w.driver.Seen()
		return !watches || w.src.version() > seen
	}, (*schedule).reflect},
	{"list at an older version", theWatch, 0, func(w *schedule) bool {
		seen, watches := w.driver.Seen()
		return !watches && seen > 1
	}, (*schedule).listOld},
	{"apply", theCache, 0, func(w *schedule) bool { return !w.driver.Idle() }, (*schedule).apply},
	deliver(0),
	{"another handler joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 2 }, func(w *schedule) { w.join(nil) }},
	deliver(1),

	{"recreate a", theSource, 'a', exists("a"), func(w *schedule) { w.src.delete("a"); w.src.put("a") }},
	{"the watch breaks after an event", theWatch, 0, func(w *schedule) bool { return behind(w, 2) }, func(w *schedule) {
		w.src.limit = 1
		w.reflect()
		w.src.limit = -1
	}},
	{"resync", theCache, 0, func(w *schedule) bool { return len(w.joined) > 0 && w.in.Indexer().Len() > 0 }, (*schedule).resync},
	{"a handler that filters joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 2 }, func(w *schedule) { w.join(odd) }},
	{"a handler of every event joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 2 }, func(w *schedule) { w.add(&view{every: true}) }},
	{"the first handler is removed", theMembers, 0, func(w *schedule) bool { return len(w.views) > 0 }, func(w *schedule) { w.remove(w.views[0]) }},

	{"bookmark", theSource, 0, nil, func(w *schedule) { w.src.bookmark() }},
	{"the watch breaks at once", theWatch, 0, nil, func(w *schedule) { w.src.limit = 0; w.reflect(); w.src.limit = -1 }},
	{"the watch breaks after two events", theWatch, 0, nil, func(w *schedule) { w.src.limit = 2; w.reflect(); w.src.limit = -1 }},
	{"put c", theSource, 'c', nil, func(w *schedule) { w.src.put("c") }},
	{"delete c", theSource, 'c', exists("c"), func(w *schedule) { w.src.delete("c") }},
	{"a third handler joins", theMembers, 0, func(w *schedule) bool { return len(w.views) < 3 }, func(w *schedule) { w.join(nil) }},
	deliver(2),
	{"the last handler is removed", theMembers, 0, func(w *schedule) bool { return len(w.views) > 1 }, func(w *schedule) { w.remove(w.views[len(w.views)-1]) }},
	{"read one thing", theWatch, 0, func(w *schedule) bool {
		seen, watches := w.driver.Seen()
		return !watches || w.src.version() > seen
	}, (*schedule).readOne},
	{"apply one thing", theCache, 0, func(w *schedule) bool { return !w.driver.Idle() }, (*schedule).applyOne},
	{"the first handler removes itself when it is called", theMembers, 0, func(w *schedule) bool {
		return len(w.views) > 0 && !w.views[0].leaves
	}, func(w *schedule) { w.views[0].leaves = true }},
}

// The lengths of the alphabets of the exhaustive schedules.
const core, full = 11, 17

// play takes the steps, and checks what comes of each but the first ones, which were checked before. It returns the number of
// steps that it took before one that was not possible, and what is wrong. Steps that are not possible are left out if skip.
func play(w *schedule, steps []byte, checked int, skip bool) (taken int, wrong string) {
	defer w.driver.Stop()
	for i, b := range steps {
		a := &actions[int(b)%len(actions)]
		if a.possible != nil && !a.possible(w) {
			if skip {
				continue
			}
			return i, ""
		}
		a.do(w)
		if i < checked {
			continue
		}
		if wrong := w.check(); wrong != "" {
			return i, wrong
		}
	}
	return len(steps), w.settle()
}

// spell returns the names of the steps, for people.
func spell(steps []byte) string {
	names := make([]string, len(steps))
	for i, b := range steps {
		names[i] = actions[int(b)%len(actions)].name
	}
	return strings.Join(names, ", ")
}

// read is the opposite of spell.
func read(t testing.TB, story string) (steps []byte) {
	if story == "" {
		return nil
	}
	for name := range strings.SplitSeq(story, ", ") {
		i := slices.IndexFunc(actions, func(a action) bool { return a.name == name })
		require.GreaterOrEqual(t, i, 0, name)
		steps = append(steps, byte(i))
	}
	return steps
}

// inFullSwing is a beginning: two objects are in the cache and known to a handler, and another that filters has just
// joined.
func inFullSwing(w *schedule) {
	w.src.put("a")
	w.src.put("b")
	w.join(nil)
	w.reflect()
	w.apply()
	for w.driver.Deliver(0) {
	}
}

// TestEveryShortSchedule plays every schedule of six steps of the core on two keys, from an empty source that was never
// listed. It also plays those of five steps of the full alphabet, from there and from an informer in full swing: there, after the same four
// steps, it plays every third fifth step. SCHEDULE_DEPTH is another length for all of them, of which none is left out: seven takes a minute.
//
// It leaves out steps that would do nothing, schedules that differ from a played one only in the order of independent steps,
// and schedules in which a and b are exchanged. Shorter schedules are the beginnings of these.
func TestEveryShortSchedule(t *testing.T) {
	t.Parallel()
	fresh := func(w *schedule) { w.join(nil) }
	for _, c := range []struct {
		name                   string
		begin                  func(*schedule)
		alphabet, depth, every int
	}{
		{"of the core, from the beginning", fresh, core, 6, 1},
		{"from the beginning", fresh, full, 5, 1},
		{"in full swing", inFullSwing, full, 5, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if text := os.Getenv("SCHEDULE_DEPTH"); text != "" {
				var err error
				c.depth, err = strconv.Atoi(text)
				require.NoError(t, err)
				c.every = 1
			} else if testing.Short() || underRace {
				c.depth--
			}
			played, checked, siblings := 0, 0, 0
			steps := make([]byte, c.depth)
			for next := true; next; {
				n := canonical(steps)
				if siblings++; checked < c.depth-1 {
					siblings = 0 // the first with these steps before the last one
				}
				if n == c.depth && siblings%c.every == 0 {
					w := newSchedule(t)
					c.begin(w)
					var wrong string
					n, wrong = play(w, steps, checked, false)
					require.Empty(t, wrong, "after %s", spell(steps[:min(n+1, c.depth)]))
					played++
				}
				// Steps after a useless step are useless, too.
				checked, next = advance(steps, c.alphabet, min(n, c.depth-1))
			}
			t.Log(played, "schedules")
		})
	}
}

// canonical returns the number of steps before the first one that some other schedule takes in a better order.
func canonical(steps []byte) int {
	touched := false
	for i, b := range steps {
		a := &actions[b]
		if !touched && (a.name == "put b" || a.name == "delete b") {
			return i
		}
		touched = touched || strings.HasSuffix(a.name, " a")
		for j := i - 1; j >= 0; j-- {
			if c := &actions[steps[j]]; meet(a, c) {
				break
			} else if b < steps[j] {
				return i // a could come before c, and all that is between them
			}
		}
	}
	return len(steps)
}

// advance makes steps the next ones that differ at index i or before. It returns how many are the same, and false when there
// are none.
func advance(steps []byte, alphabet, i int) (same int, ok bool) {
	clear(steps[i+1:])
	for ; i >= 0; i-- {
		steps[i]++
		if int(steps[i]) < alphabet {
			return i, true
		}
		steps[i] = 0
	}
	return 0, false
}

// TestRandomSchedules plays 500 schedules of 60 steps, and 5,000 if SCHEDULE_DEPTH is set. SCHEDULE_SEED plays one again.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	schedules := 500
	switch {
	case os.Getenv("SCHEDULE_DEPTH") != "":
		schedules = 5000
	case testing.Short() || underRace:
		schedules = 200
	}
	seed := func(i int) string { return fmt.Sprint("schedule ", i) }
	if text := os.Getenv("SCHEDULE_SEED"); text != "" {
		schedules, seed = 1, func(int) string { return text }
	}
	for i := range schedules {
		var key [32]byte
		copy(key[:], seed(i))
		steps := make([]byte, 60)
		_, _ = rand.NewChaCha8(key).Read(steps) // never fails
		n, wrong := play(newSchedule(t), steps, 0, true)
		require.Empty(t, wrong, "SCHEDULE_SEED=%q, after %s", seed(i), spell(steps[:min(n+1, len(steps))]))
	}
}

// FuzzSchedules plays the bytes as steps.
func FuzzSchedules(f *testing.F) {
	for _, story := range []string{
		"",
		// One of two objects comes and goes.
		"another handler joins, put a, put b, list or watch, apply, handler 0 returns, put a, delete a, list or watch, apply",
		// Recreated while no watch was open, and an old list is rejected.
		"another handler joins, put a, list or watch, apply, handler 0 returns, put a, recreate a, compact, list or watch, list at an older version, list or watch, apply",
		// A filter, a resync, and a handler that goes.
		"a handler that filters joins, put a, list or watch, apply, put a, put a, the watch breaks after an event, another handler joins, apply, resync, the first handler is removed",
		// Three handlers, bookmarks, watches that break.
		"a third handler joins, put a, put c, list or watch, another handler joins, apply, bookmark, delete c, the watch breaks at once, the watch breaks after two events, a third handler joins, handler 2 returns, the last handler is removed",
		// A handler joins between changes that are applied together.
		"put a, list or watch, apply, put a, list or watch, a handler of every event joins, put b, delete b, list or watch, apply, handler 0 returns",
		// An object leaves the filter before it is deleted.
		"a handler that filters joins, put a, list or watch, apply, handler 0 returns, put a, list or watch, apply, delete a, list or watch, apply",
		// An object was recreated, and the handler removes itself when the old one is reported as deleted.
		"another handler joins, put a, list or watch, apply, handler 0 returns, recreate a, list or watch, apply, the first handler removes itself when it is called, handler 0 returns",
	} {
		f.Add(read(f, story))
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 200 {
			t.Skip("nothing new arrives this late")
		}
		if n, wrong := play(newSchedule(t), steps, 0, true); wrong != "" {
			t.Fatalf("after %s: %s", spell(steps[:min(n+1, len(steps))]), wrong)
		}
	})
}
