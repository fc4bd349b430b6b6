package simtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

const (
	maxObjects = 12  // the maximum number of objects that a line of the state names
	maxLines   = 300 // lines of a timeline that is not shortened
)

// timeline is the record of one run. Its methods may be called by several goroutines concurrently.
type timeline struct {
	db    *database
	same  sameFunc
	began time.Time

	mu sync.Mutex
	// mu guards the following.
	entries []timelineEntry
	settled []informer.Version // of the database, at each time when nothing was left to do after a step
}

// timelineEntry is a line. Its text is made when it is read.
type timelineEntry struct {
	at      time.Duration
	actor   string
	format  string
	args    []any
	wrote   *change
	settled int // the index in Timeline.settled, counted from 1, of an entry that says that nothing is left to do
}

// newTimeline returns the timeline of a run that begins now. For same, see [World].
func newTimeline(db *database, same sameFunc) *timeline {
	return &timeline{db: db, same: same, began: time.Now(), entries: make([]timelineEntry, 0, 32)}
}

// note adds a line. The values that args point to must not change.
func (t *timeline) note(actor, format string, args ...any) {
	t.add(timelineEntry{actor: actor, format: format, args: args})
}

// committed adds a line for a commit.
func (t *timeline) committed(c *change) { t.add(timelineEntry{actor: c.actor, wrote: c}) }

func (t *timeline) add(e timelineEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.at = time.Since(t.began)
	t.entries = append(t.entries, e)
}

// removeLast removes the last line.
func (t *timeline) removeLast() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = t.entries[:len(t.entries)-1]
}

// markSettled records that nothing is left to do.
func (t *timeline) markSettled() {
	t.mu.Lock()
	t.settled = append(t.settled, t.db.version())
	n := len(t.settled)
	t.mu.Unlock()
	t.add(timelineEntry{settled: n})
}

// line is a line of a timeline.
type line struct {
	at    time.Duration
	actor string
	text  string
	wrote bool // whether it is a commit
	state bool // whether it says how the objects differ from those of the run without faults
}

// lines returns the lines of the run. If fair, the run without faults, is given, lines of state say how the objects differ from it each
// time nothing is left to do, if the difference has changed.
func (t *timeline) lines(fair *timeline) (lines []line) {
	var before []string
	for _, e := range t.entries {
		switch {
		case e.wrote != nil:
			lines = append(lines, line{at: e.at, actor: e.actor, text: commitText(e.wrote), wrote: true})
		case e.settled == 0:
			lines = append(lines, line{at: e.at, actor: e.actor, text: fmt.Sprintf(e.format, e.args...)})
		case fair != nil && e.settled <= len(fair.settled):
			now := t.differences(fair, e.settled-1)
			if slices.Equal(before, now) {
				continue
			}
			before = now
			if len(now) == 0 {
				now = []string{"as without faults"}
			}
			for _, text := range now {
				lines = append(lines, line{at: e.at, actor: "state", text: text, state: true})
			}
		}
	}
	return lines
}

const (
	longestCycle = 8 // lines that may repeat
	fewestCycles = 4 // repetitions that are folded
)

// fold replaces repetitions of the same lines by one line. Lines are the same if only versions and values differ: a retry, or two systems that undo
// each other's work.
func fold(lines []line) (folded []line) {
	shapes := make([]string, len(lines))
	for i, l := range lines {
		shapes[i] = l.shape()
	}
	for i := 0; i < len(lines); {
		cycle, times := repeated(shapes[i:])
		if times < fewestCycles {
			folded = append(folded, lines[i])
			i++
			continue
		}
		folded = append(folded, lines[i:i+cycle]...)
		i += cycle * times
		what := "line repeats"
		if cycle > 1 {
			what = fmt.Sprintf("%d lines repeat", cycle)
		}
		until := lines[i-1].at.Round(time.Millisecond)
		folded = append(folded, line{at: lines[i-1].at, state: true, text: fmt.Sprintf("... the %s, %d times in all, until %v ...", what, times, until)})
	}
	return folded
}

// repeated returns how many lines at the beginning repeat, and how often. times is 1 if none do.
func repeated(shapes []string) (cycle, times int) {
	for cycle = 1; cycle <= longestCycle; cycle++ {
		times = 0
		for at := 0; at+cycle <= len(shapes) && slices.Equal(shapes[:cycle], shapes[at:at+cycle]); at += cycle {
			times++
		}
		if times >= fewestCycles && !slices.Contains(shapes[:cycle], "") {
			return cycle, times
		}
	}
	return 1, 1
}

// shape returns what is the same in a repetition: the line, without the numbers from its version on. It is empty if the line must not be folded.
func (l line) shape() string {
	if strings.HasPrefix(l.text, "FAULT ") || strings.HasPrefix(l.text, "STEP ") || l.state {
		return ""
	}
	head, tail, _ := strings.Cut(l.text, "@")
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	return l.actor + " " + head + "@" + strings.Join(strings.FieldsFunc(tail, isDigit), "0")
}

// shorten leaves out the middle of what is too long to read: a loop looks the same everywhere.
func shorten(lines []line) []line {
	if len(lines) <= maxLines {
		return lines
	}
	left := line{at: lines[maxLines/2].at, state: true, text: fmt.Sprintf("... %d lines are left out ...", len(lines)-maxLines)}
	return slices.Concat(lines[:maxLines/2], []line{left}, lines[len(lines)-maxLines/2:])
}

// differences returns how the objects differ from those of the run without faults, when nothing was left to do for the nth time.
func (t *timeline) differences(fair *timeline, n int) (texts []string) {
	all := compare(t.state(n), fair.state(n))
	for i, d := range all {
		if i == maxObjects {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-maxObjects))
			break
		}
		texts = append(texts, d.String())
	}
	return texts
}

func (t *timeline) state(n int) map[string]string {
	return objectTexts(t.db.changesAt(t.settled[n]), t.same)
}

// commitText returns the text of a commit.
func commitText(c *change) string {
	op := c.op()
	text := fmt.Sprintf("%s %s @%d", op, c.object, c.record.Version)
	switch op {
	case "create":
		text += " " + describe(c.record)
	case "update":
		text += " " + diff(describe(c.replaced()), describe(c.record))
	}
	return text
}

// formatLines returns lines as text, with the times.
func formatLines(lines []line) string {
	return formatWith(lines, func(l line) string { return l.at.Round(time.Millisecond).String() })
}

// order returns the lines as text, without times, because pauses between attempts are random.
func (t *timeline) order() string { return formatWith(t.lines(nil), func(line) string { return "" }) }

func formatWith(lines []line, when func(line) string) string {
	var b strings.Builder
	width := 0
	for _, l := range lines {
		width = max(width, len(l.actor))
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "  %8s  %-*s  %s\n", when(l), width, l.actor, l.text)
	}
	return b.String()
}
