//go:build linux

package backendtest

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// overlap is an action that was not over when a later term acted.
type overlap struct {
	late, early action
}

// overlaps returns the actions that were not over when the first of a later term began. Actions are in order of begin. One
// from which the node has refrained is none.
func overlaps(actions []action) (found []overlap) {
	actions = slices.DeleteFunc(slices.Clone(actions), func(a action) bool { return a.said == "refrained" })
	first := make(map[uint64]action) // of each term
	for _, a := range actions {
		if _, ok := first[a.term]; !ok {
			first[a.term] = a
		}
	}
	for _, a := range actions {
		for term, b := range first {
			if term > a.term && b.begin < a.end {
				found = append(found, overlap{late: a, early: b})
				break
			}
		}
	}
	return found
}

// excused reports whether the node of an action was stopped in the middle of it: between asking whether it leads, and
// the end.
func excused(a action, stops []stop) bool {
	return slices.ContainsFunc(stops, func(s stop) bool { return s.node == a.node && a.begin <= s.to && s.from <= a.end })
}

// fence is the state of the fenced register: the greatest term that has written, and the value.
type fence struct {
	term  uint64
	value string // "" is any: the beginning of a window
}

// fenceModel is the register for porcupine: a write of a term that is over is never accepted.
func fenceModel(initial fence) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			have, a := state.(fence), input.(action)
			ok := a.term >= have.term && (have.value == "" || a.old == "?" || a.old == have.value)
			return ok, fence{term: a.term, value: a.new}
		},
	}
}

// window is about how many writes porcupine gets at a time.
const window = 1000

// checkFence makes porcupine check the answers of the register. A write whose outcome is not known has happened if its
// value was seen, and then it happened before that was seen; otherwise it is left out, for nothing depends on it.
func checkFence(actions []action) error {
	seenBy := make(map[string]action) // the write that replaced a value
	for _, a := range actions {
		if a.said == "done" {
			if other, twice := seenBy[a.old]; twice {
				return fmt.Errorf("two writes have replaced the same value: %v and %v", other, a)
			}
			seenBy[a.old] = a
		}
	}
	var writes []action
	for _, a := range actions {
		seen, ok := seenBy[a.new]
		switch {
		case a.said == "done":
		case a.said == "refused", a.said == "refrained":
			if ok {
				return fmt.Errorf("a write that was refused has happened: %v", a)
			}
			continue
		case ok:
			a.end, a.old = seen.end, "?"
		default:
			continue
		}
		writes = append(writes, a)
	}
	slices.SortFunc(writes, func(a, b action) int { return cmp.Compare(a.begin, b.begin) })
	state := fence{value: "0"}
	var open time.Duration // until when something of the window is under way
	var history []porcupine.Operation
	flush := func() error {
		if result := porcupine.CheckOperationsTimeout(fenceModel(state), history, time.Minute); result != porcupine.Ok {
			return fmt.Errorf("the fenced register is not linearizable: %v", result)
		}
		for _, o := range history {
			state.term = max(state.term, o.Input.(action).term)
		}
		state.value, history = "", nil
		return nil
	}
	for _, a := range writes {
		if len(history) >= window && a.begin > open {
			if err := flush(); err != nil {
				return err
			}
		}
		open = max(open, a.end)
		history = append(history, porcupine.Operation{Input: a, Call: int64(a.begin), Return: int64(a.end)})
	}
	return flush()
}

// lostUpdates compares the counter that nothing guards with how often it was raised.
func lostUpdates(t testing.TB, file string, actions []action) int {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	n, err := readCounter(f)
	require.NoError(t, err)
	raised := 0
	for _, a := range actions {
		if a.added {
			raised++
		}
	}
	return max(0, raised-n)
}

func TestVerdictDetectsViolations(t *testing.T) {
	one, two := &node{}, &node{}
	a := func(n *node, term uint64, begin, end time.Duration, old, new, said string) action {
		return action{node: n, term: term, begin: begin, end: end, old: old, new: new, said: said}
	}
	good := []action{
		a(one, 1, 0, 1, "0", "a", "done"), a(one, 1, 2, 3, "a", "b", "done"), a(one, 1, 4, 5, "", "c", "unknown"),
		a(two, 2, 6, 7, "c", "d", "done"), a(two, 2, 8, 9, "", "e", "unknown"), a(two, 2, 10, 11, "d", "f", "done"),
	}
	assert.Empty(t, overlaps(good))
	assert.NoError(t, checkFence(good))

	late := append(slices.Clone(good), a(one, 1, 12, 13, "", "g", "refused"))
	require.Len(t, overlaps(late), 1)
	assert.NoError(t, checkFence(late), "the register has rejected it")
	assert.False(t, excused(late[6], []stop{{two, 11, 14}, {one, 0, 11}, {one, 14, 15}}))
	assert.True(t, excused(late[6], []stop{{one, 5, 12}}))
	assert.True(t, excused(late[6], []stop{{one, 13, 14}}))

	late[6].said = "refrained"
	assert.Empty(t, overlaps(late))

	under := slices.Clone(good)
	under[2].end = 7
	require.Len(t, overlaps(under), 1)

	for name, wrong := range map[string]action{
		"a write of an ended term":       a(one, 1, 12, 13, "f", "g", "done"),
		"a write is lost":                a(two, 2, 12, 13, "b", "g", "done"),
		"two replace one":                a(two, 2, 12, 13, "d", "g", "done"),
		"a value that was never written": a(two, 2, 12, 13, "x", "g", "done"),
		"a rejected write was applied":   a(two, 2, 1, 2, "", "a", "refused"),
		"a write before its start":       a(two, 2, math.MaxInt32, math.MaxInt32+1, "", "0", "unknown"),
	} {
		assert.Error(t, checkFence(append(slices.Clone(good), wrong)), name)
	}
}
