package timeline

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/state"
)

const (
	most = 12  // the maximum number of objects that a line of the state names
	long = 300 // lines of a timeline that is not shortened
)

// Timeline is the record of one run. Its methods may be called by several goroutines concurrently.
type Timeline struct {
	db    *database.DB
	same  func(kind, key, text string) string
	began time.Time

	mu sync.Mutex
	// mu guards the following.
	entries []entry
	settled []informer.Version // of the database, at each time when nothing was left to do after a step
}

// entry is a line. Its text is made when it is read.
type entry struct {
	at      time.Duration
	actor   string
	format  string
	args    []any
	wrote   *database.Change
	settled int // the index in Timeline.settled, counted from 1, of an entry that says that nothing is left to do
}

// New returns the timeline of a run that begins now. For same, see [state.At].
func New(db *database.DB, same func(kind, key, text string) string) *Timeline {
	return &Timeline{db: db, same: same, began: time.Now(), entries: make([]entry, 0, 32)}
}

// Note adds a line. The values that args point to must not change.
func (t *Timeline) Note(actor, format string, args ...any) {
	t.add(entry{actor: actor, format: format, args: args})
}

// Wrote adds a line for a commit.
func (t *Timeline) Wrote(c *database.Change) { t.add(entry{actor: c.Actor, wrote: c}) }

func (t *Timeline) add(e entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.at = time.Since(t.began)
	t.entries = append(t.entries, e)
}

// Unnote removes the last line.
func (t *Timeline) Unnote() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = t.entries[:len(t.entries)-1]
}

// Settled records that nothing is left to do.
func (t *Timeline) Settled() {
	t.mu.Lock()
	t.settled = append(t.settled, t.db.Version())
	n := len(t.settled)
	t.mu.Unlock()
	t.add(entry{settled: n})
}

// Len returns the number of lines.
func (t *Timeline) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}

// Line is a line of a timeline.
type Line struct {
	At    time.Duration
	Actor string
	Text  string
	Wrote bool // whether it is a commit
	State bool // whether it says how the objects differ from those of the run without faults
}

// Lines returns the lines of the run. If fair, the run without faults, is given, lines of state say how the objects differ from it each
// time nothing is left to do, if the difference has changed.
func (t *Timeline) Lines(fair *Timeline) (lines []Line) {
	var before []string
	for _, e := range t.entries {
		switch {
		case e.wrote != nil:
			lines = append(lines, Line{At: e.at, Actor: e.actor, Text: textOf(e.wrote), Wrote: true})
		case e.settled == 0:
			lines = append(lines, Line{At: e.at, Actor: e.actor, Text: fmt.Sprintf(e.format, e.args...)})
		case fair != nil && e.settled <= len(fair.settled):
			now := t.besides(fair, e.settled-1)
			if slices.Equal(before, now) {
				continue
			}
			before = now
			if len(now) == 0 {
				now = []string{"as without faults"}
			}
			for _, text := range now {
				lines = append(lines, Line{At: e.at, Actor: "state", Text: text, State: true})
			}
		}
	}
	return lines
}

// Shorten leaves out the middle of what is too long to read: a loop looks the same everywhere.
func Shorten(lines []Line) []Line {
	if len(lines) <= long {
		return lines
	}
	left := Line{At: lines[long/2].At, State: true, Text: fmt.Sprintf("... %d lines are left out ...", len(lines)-long)}
	return slices.Concat(lines[:long/2], []Line{left}, lines[len(lines)-long/2:])
}

// besides returns how the objects differ from those of the run without faults, when nothing was left to do for the nth time.
func (t *Timeline) besides(fair *Timeline, n int) (texts []string) {
	all := state.Compare(t.state(n), fair.state(n))
	for i, d := range all {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		texts = append(texts, d.String())
	}
	return texts
}

func (t *Timeline) state(n int) map[string]string { return state.At(t.db, t.settled[n], t.same) }

// textOf returns the text of a commit.
func textOf(c *database.Change) string {
	op := c.Op()
	text := fmt.Sprintf("%s %s @%d", op, c.Object, c.Record.Version)
	switch op {
	case "create":
		text += " " + state.Describe(c.Record)
	case "update":
		text += " " + state.Diff(state.Describe(c.Before()), state.Describe(c.Record))
	}
	return text
}

// Format returns lines as text, with the times.
func Format(lines []Line) string {
	return format(lines, func(l Line) string { return l.At.Round(time.Millisecond).String() })
}

// Order returns the lines as text, without times, because pauses between attempts are random.
func (t *Timeline) Order() string { return format(t.Lines(nil), func(Line) string { return "" }) }

func format(lines []Line, when func(Line) string) string {
	var b strings.Builder
	width := 0
	for _, l := range lines {
		width = max(width, len(l.Actor))
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "  %8s  %-*s  %s\n", when(l), width, l.Actor, l.Text)
	}
	return b.String()
}
