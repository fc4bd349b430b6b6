package simtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/store/backend"
)

// end is what is left at the end of a run.
type end struct {
	state   map[string]string // the text of each object
	orphans []string          // objects whose owners are all gone
	stuck   []string          // objects that are being deleted, and whose finalizers nobody removes
}

// judge looks at the state at the end.
func (r *run) judge() {
	if r.failed() {
		return
	}
	if r.world.Goal != nil {
		if err := r.world.Goal(r.view()); err != nil {
			r.fail("goal", "at the end: %v", err)
		}
	}
	alive := make(map[string]bool)
	for _, rec := range r.db.all() {
		alive[envelopeOf(rec).UID] = true
	}
	r.final.state = r.state()
	for name, rec := range r.db.all() {
		e := envelopeOf(rec)
		gone := len(e.Owners) > 0
		for _, owner := range e.Owners {
			gone = gone && !alive[owner.UID]
		}
		if gone {
			r.final.orphans = append(r.final.orphans, name)
		}
		if e.Deleting != "" && len(e.Finalizers) > 0 {
			r.final.stuck = append(r.final.stuck, name)
		}
	}
}

// verdict returns what is wrong with a run, beside the run without faults, or nil.
func verdict(r, fair *run) *problem {
	if r.problem != nil {
		return r.problem
	}
	for _, name := range r.final.orphans {
		if !slices.Contains(fair.final.orphans, name) {
			return &problem{"orphan " + name, name + " is left at the end, and its owners are gone"}
		}
	}
	for _, name := range r.final.stuck {
		if !slices.Contains(fair.final.stuck, name) {
			return &problem{"finalizer " + name, name + " is being deleted at the end, and nobody removes its finalizers"}
		}
	}
	if r.world.Goal != nil {
		return nil
	}
	names := maps.Clone(fair.final.state)
	maps.Copy(names, r.final.state)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		want, expected := fair.final.state[name]
		have, there := r.final.state[name]
		switch {
		case !there:
			return &problem{"missing " + name, fmt.Sprintf("%s is missing at the end; without faults it is there: %s", name, want)}
		case !expected:
			return &problem{"extra " + name, fmt.Sprintf("%s is there at the end, and not without faults: %s", name, have)}
		case have != want:
			return &problem{"differs " + name, fmt.Sprintf("%s differs at the end from the run without faults: %s", name, diff(want, have))}
		}
	}
	return nil
}

// describe returns the text of an object: its value, and what of its envelope is the same in every run.
func describe(rec backend.Record) string {
	text := string(rec.Value)
	e := envelopeOf(rec)
	if len(rec.Labels) > 0 {
		text += " labels=" + jsonOf(rec.Labels)
	}
	var owners []string
	for _, o := range e.Owners {
		owners = append(owners, nameOf(o.Kind, o.Key))
	}
	if len(owners) > 0 {
		text += " owners=" + strings.Join(owners, ",")
	}
	if len(e.Finalizers) > 0 {
		text += " finalizers=" + strings.Join(e.Finalizers, ",")
	}
	if e.Deleting != "" {
		text += " deleting"
	}
	return text
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// diff returns what differs between two texts of objects: the fields of the value, if both are JSON objects of the same shape,
// and both texts if not.
func diff(before, after string) string {
	var a, b map[string]any
	aRest, aErr := decodeFirst(before, &a)
	bRest, bErr := decodeFirst(after, &b)
	if aErr != nil || bErr != nil {
		return before + " -> " + after
	}
	var changes []string
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if x, y := jsonOf(a[k]), jsonOf(b[k]); x != y {
			changes = append(changes, fmt.Sprintf("%s: %s -> %s", k, x, y))
		}
	}
	if aRest != bRest {
		changes = append(changes, fmt.Sprintf("%q -> %q", strings.TrimSpace(aRest), strings.TrimSpace(bRest)))
	}
	if len(changes) == 0 {
		return "nothing but its version"
	}
	return strings.Join(changes, ", ")
}

// decodeFirst decodes the JSON at the beginning of text, and returns what follows it.
func decodeFirst(text string, into any) (rest string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(into); err != nil {
		return "", err
	}
	return text[d.InputOffset():], nil
}

// timeline returns what happened and when, one line each.
func (r *run) timeline() string {
	return r.lines(func(e entry) string { return e.at.Round(time.Millisecond).String() })
}

// order returns what happened, without times: pauses between attempts are random.
func (r *run) order() string { return r.lines(func(entry) string { return "" }) }

func (r *run) lines(when func(entry) string) string {
	var b strings.Builder
	width := 0
	for _, e := range r.entries {
		width = max(width, len(e.actor))
	}
	for _, e := range r.entries {
		text := e.text
		if c := e.wrote; c != nil {
			text = fmt.Sprintf("%s %s @%d", c.op(), c.object(), c.record.Version)
			switch c.op() {
			case "create":
				text += " " + describe(c.record)
			case "update":
				text += " " + diff(describe(c.before), describe(c.record))
			}
		}
		fmt.Fprintf(&b, "  %8s  %-*s  %s\n", when(e), width, e.actor, text)
	}
	return b.String()
}
