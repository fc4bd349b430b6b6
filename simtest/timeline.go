package simtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// most is how many objects a line of the state names.
const most = 12

// line is a line of a timeline.
type line struct {
	at    time.Duration
	actor string
	text  string
	wrote bool // it is a commit
	state bool // it says how the objects differ from those of the run without faults
}

// lines returns what happened. With fair, the run without faults, they have how the objects differ from it whenever nothing is left
// to do, if that has changed.
func (r *run) lines(fair *run) (lines []line) {
	var before []string
	for _, e := range r.entries {
		switch {
		case e.wrote != nil:
			lines = append(lines, line{at: e.at, actor: e.actor, text: e.wrote.text(), wrote: true})
		case e.settled == 0:
			lines = append(lines, line{at: e.at, actor: e.actor, text: e.text})
		case fair != nil && e.settled <= len(fair.settled):
			now := r.besides(fair, e.settled-1)
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

// besides returns how the objects differ from those of the run without faults, when nothing was left to do for the nth time.
func (r *run) besides(fair *run, n int) (texts []string) {
	all := compare(r.state(r.settled[n]), fair.state(fair.settled[n]))
	for i, d := range all {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		texts = append(texts, d.String())
	}
	return texts
}

// text returns what the commit did.
func (c *change) text() string {
	text := fmt.Sprintf("%s %s @%d", c.op(), c.object(), c.record.Version)
	switch c.op() {
	case "create":
		text += " " + describe(c.record)
	case "update":
		text += " " + diff(describe(c.before), describe(c.record))
	}
	return text
}

// timeline returns what happened and when, one line each, beside the run without faults, or alone if that is nil.
func (r *run) timeline(fair *run) string { return formatTimed(r.lines(fair)) }

func formatTimed(lines []line) string {
	return format(lines, func(l line) string { return l.at.Round(time.Millisecond).String() })
}

// order returns what happened, without times: pauses between attempts are random.
func (r *run) order() string { return format(r.lines(nil), func(line) string { return "" }) }

func format(lines []line, when func(line) string) string {
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

// seen returns up to where the caches of a process have heard, if that is not the present.
func (p *process) seen() (text string) {
	now := p.run.db.version()
	for _, v := range p.views {
		if seen := v.version(); seen < now {
			text += fmt.Sprintf(" %s@%d", v.of(), seen)
		}
	}
	if text != "" {
		text = fmt.Sprintf(", seeing%s of %d", text, now)
	}
	return text
}

// state returns the text of each object at a version.
func (r *run) state(at informer.Version) map[string]string {
	state := make(map[string]string)
	for name, c := range r.db.changes(at) {
		text := describe(c.record)
		if r.world.Same != nil {
			text = r.world.Same(c.kind, c.record.Key, text)
		}
		state[name] = text
	}
	return state
}
