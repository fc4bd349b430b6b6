package workqueue_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// What a user can observe, as the model and the queue both write it.

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
		c.handOut()
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
	var stats workqueue.Stats
	for _, key := range keys {
		k := s.keys[key]
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
			QuietUntil: k.quiet, Priority: k.priority, Group: s.group(key), Failures: k.failures, FirstFailure: k.failed}
		writeKey(&b, info, k.reasons, s.shutdown)
	}
	writeRest(&b, stats, s.ready(), s.shutdown, s.idle(), s.told)
	writeNumbers(&b, "\nwaiting getters, drains, idlers", s.getters, s.drains, s.idlers)
	writeNumbers(&b, "getters told, stopped", s.ended, s.stopped)
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

// writeKey writes what a Snapshot says of a key. A shutdown forgets several keys at once, in no order, so that is not told.
func writeKey(b *strings.Builder, i workqueue.KeyInfo[string], reasons []string, shutdown bool) {
	if i.State == workqueue.Remembered && shutdown {
		i.Key = "?"
		i.Failures, i.FirstFailure, i.Group, reasons = 0, time.Time{}, "", nil
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
	writeTime(b, "first", i.FirstFailure)
	writeList(b, "reasons", reasons)
	b.WriteByte('\n')
}

func writeRest(b *strings.Builder, stats workqueue.Stats, ready []string, shutdown, idle bool, told []string) {
	writeNumbers(b, "Ready", stats.Ready)
	writeNumbers(b, "InProcess", stats.InProcess)
	writeNumbers(b, "Dirty", stats.Dirty)
	writeNumbers(b, "Delayed", stats.Delayed)
	writeNumbers(b, "Parked", stats.Parked)
	writeNumbers(b, "Remembered", stats.Remembered)
	writeNumbers(b, "Unfinished", int(stats.Unfinished))
	writeNumbers(b, "LongestRunning", int(stats.LongestRunning))
	writeList(b, "in order", ready)
	writeFlag(b, "shutdown", shutdown)
	writeFlag(b, "idle", idle)
	writeList(b, "the hooks were told", slices.Sorted(slices.Values(told))) // hooks of calls that overlap are called in any order
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
