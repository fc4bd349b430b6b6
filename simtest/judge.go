package simtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/internal/envelope"
	"github.com/setpoint-go/setpoint/store/backend"
)

// finalState is the state at the end of a run.
type finalState struct {
	texts map[string]string // the text of each object

	db      *database
	orphans []string // objects whose owners are all deleted
	stuck   []string // objects that are being deleted, and whose finalizers are not removed
	shared  []string // objects that two living owners controlled at one time
	failing []failing
}

// examine examines the current state of a database. For same, see [World].
func examine(db *database, same sameFunc) *finalState {
	objects := db.changesAt(db.version())
	e := &finalState{db: db, texts: objectTexts(objects, same)}
	owned := e.ever("owners")
	if !owned && !e.ever("finalizers") {
		return e
	}
	alive := make(map[string]bool)
	if owned {
		for _, c := range objects {
			alive[envelopeOf(c.record).UID] = true
		}
		e.shared = e.sharedObjects()
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		rec := objects[name].record
		if !hasField(rec, "owners") && !hasField(rec, "finalizers") {
			continue
		}
		meta := envelopeOf(rec)
		orphan := len(meta.Owners) > 0
		for _, owner := range meta.Owners {
			orphan = orphan && !alive[owner.UID]
		}
		switch {
		case !meta.Deleting.IsZero() && len(meta.Finalizers) > 0: // that is why it is left, also if it is an orphan
			e.stuck = append(e.stuck, name)
		case orphan:
			e.orphans = append(e.orphans, name)
		}
	}
	return e
}

// ever reports whether any object may have had a field in its envelope.
func (e *finalState) ever(field string) bool {
	return slices.ContainsFunc(e.log(), func(c *change) bool { return hasField(c.record, field) })
}

func (e *finalState) log() []*change { return e.db.after(0, e.db.version()) }

// sharedObjects returns the objects that two owners controlled while both lived.
func (e *finalState) sharedObjects() (shared []string) {
	alive := make(map[string]bool)
	uids := make(map[string]string) // by object
	for _, c := range e.log() {
		name := c.object
		if c.record.Deleted {
			delete(alive, uids[name])
			delete(uids, name)
			continue
		}
		meta := envelopeOf(c.record)
		uids[name] = meta.UID
		alive[meta.UID] = true
		controllers := controllersOf(meta)
		if c.op() == "update" && len(controllers) == 1 {
			controllers = append(controllers, controllersOf(envelopeOf(c.replaced()))...)
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
func controllersOf(e envelope.Envelope) (uids []string) {
	for _, o := range e.Owners {
		if o.Controller {
			uids = append(uids, o.UID)
		}
	}
	return uids
}

// problemBeside returns the rule that the end breaks, compared with the end of the run without faults, or nil. If free is true, the state may
// differ from that of the run without faults: the world has a goal.
func (e *finalState) problemBeside(fair *finalState, free bool) *problem {
	for _, left := range []struct {
		broken     Rule
		have, fair []string
		text       string
	}{
		{ruleOrphan, e.orphans, fair.orphans, "is left at the end, and its owners are deleted"},
		{ruleFinalizer, e.stuck, fair.stuck, "is being deleted at the end, and no system removes its finalizers"},
		{ruleTwoOwners, e.shared, fair.shared, "was controlled by two owners that lived at the same time"},
	} {
		for _, name := range left.have {
			if !slices.Contains(left.fair, name) {
				return &problem{rule: left.broken, about: name, text: name + " " + left.text}
			}
		}
	}
	for _, f := range e.failing {
		if !slices.ContainsFunc(fair.failing, func(g failing) bool { return g.name == f.name }) {
			return &problem{rule: ruleFailing, about: f.name, text: f.text}
		}
	}
	differences := compare(e.texts, fair.texts)
	for _, d := range differences {
		if lost := e.lostWrite(d.name); lost != "" && lost != fair.lostWrite(d.name) {
			return &problem{rule: ruleLostWrite, about: d.name, text: lost}
		}
	}
	if free || len(differences) == 0 {
		return nil
	}
	d := differences[0]
	switch {
	case d.have == "":
		return &problem{rule: ruleEndState, about: "missing " + d.name,
			text: d.name + " is missing at the end; without faults it exists: " + d.want}
	case d.want == "":
		return &problem{rule: ruleEndState, about: "extra " + d.name,
			text: d.name + " exists at the end, and does not without faults: " + d.have}
	default:
		return &problem{rule: ruleEndState, about: "differs " + d.name,
			text: d.name + " differs at the end from the run without faults: " + unlike(d.want, d.have)}
	}
}

// lostWrite describes how the end undoes a write of the user to an object. It returns "" if it does not. A write is undone if a field that
// the user changed has its previous value again. A creation is undone if the object is missing although the user has not deleted it.
func (e *finalState) lostWrite(name string) string {
	var created bool
	var user *change // the last write of the user
	end := backend.Record{Deleted: true}
	for _, c := range e.log() {
		if c.object != name {
			continue
		}
		end = c.record
		if c.actor != userActor {
			continue
		}
		switch c.op() {
		case "create":
			created = true
		case "delete":
			created, user = false, nil
			continue
		}
		user = c
	}
	switch {
	case user == nil:
		return ""
	case end.Deleted && created:
		return fmt.Sprintf("%s was created by the user, who has not deleted it, and it is missing", name)
	case end.Deleted || user.op() != "update" || bytes.Equal(end.Value, user.record.Value):
		return ""
	}
	before, written, left := fieldsOf(user.replaced()), fieldsOf(user.record), fieldsOf(end)
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
