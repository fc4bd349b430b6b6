package simtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/store/backend"
)

// end is what is left at the end of a run.
type end struct {
	state   map[string]string // the text of each object
	orphans []string          // objects whose owners are all gone
	stuck   []string          // objects that are being deleted, and whose finalizers nobody removes
	shared  []string          // objects that two living owners controlled at one time
}

// judge looks at the state at the end.
func (r *run) judge() {
	if r.failed() {
		return
	}
	if r.world.Goal != nil {
		if err := r.world.Goal(r.view()); err != nil {
			r.fail(ruleGoal, "at the end: %v", err)
		}
	}
	r.final.state = r.state(r.db.version())
	alive := make(map[string]bool)
	if r.owned() {
		for _, rec := range r.db.all() {
			alive[envelopeOf(rec).UID] = true
		}
	}
	for name, rec := range r.db.all() {
		if !says(rec, "owners") && !says(rec, "finalizers") {
			continue
		}
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
	r.final.shared = r.sharedObjects()
}

// owned reports whether any object may have had an owner.
func (r *run) owned() bool {
	return slices.ContainsFunc(r.db.after(0, r.db.version()), func(c change) bool { return says(c.record, "owners") })
}

// sharedObjects returns the objects that two owners controlled which lived at that time.
func (r *run) sharedObjects() (shared []string) {
	if !r.owned() {
		return nil
	}
	alive := make(map[string]bool)
	uids := make(map[string]string) // by object
	for _, c := range r.db.after(0, r.db.version()) {
		name := c.object()
		if c.record.Deleted {
			delete(alive, uids[name])
			delete(uids, name)
			continue
		}
		e := envelopeOf(c.record)
		uids[name] = e.UID
		alive[e.UID] = true
		controllers := controllersOf(e)
		if c.op() == "update" && len(controllers) == 1 {
			controllers = append(controllers, controllersOf(envelopeOf(c.before))...)
		}
		controllers = slices.DeleteFunc(controllers, func(uid string) bool { return !alive[uid] })
		slices.Sort(controllers)
		if len(slices.Compact(controllers)) > 1 && !slices.Contains(shared, name) {
			shared = append(shared, name)
		}
	}
	return shared
}

// controllersOf returns the UIDs of the owners that control an object.
func controllersOf(e envelope) (uids []string) {
	for _, o := range e.Owners {
		if o.Controller {
			uids = append(uids, o.UID)
		}
	}
	return uids
}

// verdict returns what is wrong with a run, beside the run without faults, or nil.
func verdict(r, fair *run) *problem {
	if r.problem != nil {
		return r.problem
	}
	for _, left := range []struct {
		rule       Rule
		have, fair []string
		says       string
	}{
		{ruleOrphan, r.final.orphans, fair.final.orphans, "is left at the end, and its owners are gone"},
		{ruleFinalizer, r.final.stuck, fair.final.stuck, "is being deleted at the end, and nobody removes its finalizers"},
		{ruleTwoOwners, r.final.shared, fair.final.shared, "was controlled by two owners that lived at the same time"},
	} {
		for _, name := range left.have {
			if !slices.Contains(left.fair, name) {
				return &problem{rule: left.rule, about: name, text: name + " " + left.says}
			}
		}
	}
	differences := compare(r.final.state, fair.final.state)
	for _, d := range differences {
		if lost := r.lostWrite(d.name); lost != "" && lost != fair.lostWrite(d.name) {
			return &problem{rule: ruleLostWrite, about: d.name, text: lost}
		}
	}
	if r.world.Goal != nil || len(differences) == 0 {
		return nil
	}
	d := differences[0]
	switch {
	case d.have == "":
		return &problem{rule: ruleEndState, about: "missing " + d.name, text: d.name + " is missing at the end; without faults it is there: " + d.want}
	case d.want == "":
		return &problem{rule: ruleEndState, about: "extra " + d.name, text: d.name + " is there at the end, and not without faults: " + d.have}
	default:
		return &problem{rule: ruleEndState, about: "differs " + d.name,
			text: d.name + " differs at the end from the run without faults: " + diff(d.want, d.have)}
	}
}

// difference is an object that is not as it has to be. A text is empty if the object is not there.
type difference struct{ name, have, want string }

// String returns a line of a timeline.
func (d difference) String() string {
	switch {
	case d.have == "":
		return "- " + d.name + " " + d.want
	case d.want == "":
		return "+ " + d.name + " " + d.have
	default:
		return "~ " + d.name + " " + diff(d.want, d.have)
	}
}

// compare returns the objects that differ, in order of name.
func compare(have, want map[string]string) (all []difference) {
	for name, text := range have {
		if want[name] != text {
			all = append(all, difference{name, text, want[name]})
		}
	}
	for name, text := range want {
		if _, ok := have[name]; !ok {
			all = append(all, difference{name, "", text})
		}
	}
	slices.SortFunc(all, func(a, b difference) int { return strings.Compare(a.name, b.name) })
	return all
}

// lostWrite returns how the end undoes what the user wrote to an object, or nothing: a field that the user changed has again the value
// from before, or the object that the user created is not there, although the user has not deleted it.
func (r *run) lostWrite(name string) string {
	var created bool
	var user *change // the last write of the user
	end := backend.Record{Deleted: true}
	for _, c := range r.db.after(0, r.db.version()) {
		if c.object() != name {
			continue
		}
		end = c.record
		if c.actor != userName {
			continue
		}
		switch c.op() {
		case "create":
			created = true
		case "delete":
			created, user = false, nil
			continue
		}
		user = &c
	}
	switch {
	case user == nil:
		return ""
	case end.Deleted && created:
		return fmt.Sprintf("%s was created by the user, who has not deleted it, and it is gone", name)
	case end.Deleted || user.op() != "update" || bytes.Equal(end.Value, user.record.Value):
		return ""
	}
	before, written, left := fieldsOf(user.before), fieldsOf(user.record), fieldsOf(end)
	for _, f := range slices.Sorted(maps.Keys(written)) {
		if w, was, is := string(written[f]), string(before[f]), string(left[f]); w != was && is == was {
			return fmt.Sprintf("the user set %s of %s to %s, and at the end it is %s again", f, name, w, is)
		}
	}
	return ""
}

// fieldsOf returns the fields of a value that is a JSON object.
func fieldsOf(rec backend.Record) (fields map[string]json.RawMessage) {
	_ = json.Unmarshal(rec.Value, &fields) // another codec, or no object: it has no fields
	return fields
}

// describe returns the text of an object: its value, and what of its envelope is the same in every run.
func describe(rec backend.Record) string {
	text := string(rec.Value)
	if len(rec.Labels) > 0 {
		text += " labels=" + jsonOf(rec.Labels)
	}
	if !says(rec, "owners") && !says(rec, "finalizers") && !says(rec, "deleting") {
		return text
	}
	e := envelopeOf(rec)
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
