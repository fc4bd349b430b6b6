package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/internal/envelope"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/state"
	"github.com/setpoint-go/setpoint/store/backend"
)

// End is the state at the end of a run.
type End struct {
	State map[string]string // the text of each object

	db      *database.DB
	orphans []string // objects whose owners are all gone
	stuck   []string // objects that are being deleted, and whose finalizers are not removed
	shared  []string // objects that two living owners controlled at one time
}

// Look examines the current state of a database. For same, see [state.At].
func Look(db *database.DB, same func(kind, key, text string) string) *End {
	e := &End{db: db, State: state.At(db, db.Version(), same)}
	owned := e.ever("owners")
	if !owned && !e.ever("finalizers") {
		return e
	}
	alive := make(map[string]bool)
	if owned {
		for _, rec := range db.All() {
			alive[database.EnvelopeOf(rec).UID] = true
		}
		e.shared = e.sharedObjects()
	}
	for name, rec := range db.All() {
		if !database.Says(rec, "owners") && !database.Says(rec, "finalizers") {
			continue
		}
		meta := database.EnvelopeOf(rec)
		gone := len(meta.Owners) > 0
		for _, owner := range meta.Owners {
			gone = gone && !alive[owner.UID]
		}
		if gone {
			e.orphans = append(e.orphans, name)
		}
		if !meta.Deleting.IsZero() && len(meta.Finalizers) > 0 {
			e.stuck = append(e.stuck, name)
		}
	}
	return e
}

// ever reports whether any object may have had a field in its envelope.
func (e *End) ever(field string) bool {
	return slices.ContainsFunc(e.log(), func(c *database.Change) bool { return database.Says(c.Record, field) })
}

func (e *End) log() []*database.Change { return e.db.After(0, e.db.Version()) }

// sharedObjects returns the objects that two owners controlled while both lived.
func (e *End) sharedObjects() (shared []string) {
	alive := make(map[string]bool)
	uids := make(map[string]string) // by object
	for _, c := range e.log() {
		name := c.Object
		if c.Record.Deleted {
			delete(alive, uids[name])
			delete(uids, name)
			continue
		}
		meta := database.EnvelopeOf(c.Record)
		uids[name] = meta.UID
		alive[meta.UID] = true
		controllers := controllersOf(meta)
		if c.Op() == "update" && len(controllers) == 1 {
			controllers = append(controllers, controllersOf(database.EnvelopeOf(c.Before()))...)
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

// Beside returns the rule that the end breaks, compared with the end of the run without faults, or nil. If free is true, the state may
// differ from that of the run without faults: the world has a goal.
func (e *End) Beside(fair *End, free bool) *rule.Problem {
	for _, left := range []struct {
		broken     rule.Rule
		have, fair []string
		says       string
	}{
		{rule.Orphan, e.orphans, fair.orphans, "is left at the end, and its owners are gone"},
		{rule.Finalizer, e.stuck, fair.stuck, "is being deleted at the end, and no system removes its finalizers"},
		{rule.TwoOwners, e.shared, fair.shared, "was controlled by two owners that lived at the same time"},
	} {
		for _, name := range left.have {
			if !slices.Contains(left.fair, name) {
				return &rule.Problem{Rule: left.broken, About: name, Text: name + " " + left.says}
			}
		}
	}
	differences := state.Compare(e.State, fair.State)
	for _, d := range differences {
		if lost := e.lostWrite(d.Name); lost != "" && lost != fair.lostWrite(d.Name) {
			return &rule.Problem{Rule: rule.LostWrite, About: d.Name, Text: lost}
		}
	}
	if free || len(differences) == 0 {
		return nil
	}
	d := differences[0]
	switch {
	case d.Have == "":
		return &rule.Problem{Rule: rule.EndState, About: "missing " + d.Name,
			Text: d.Name + " is missing at the end; without faults it exists: " + d.Want}
	case d.Want == "":
		return &rule.Problem{Rule: rule.EndState, About: "extra " + d.Name,
			Text: d.Name + " exists at the end, and does not without faults: " + d.Have}
	default:
		return &rule.Problem{Rule: rule.EndState, About: "differs " + d.Name,
			Text: d.Name + " differs at the end from the run without faults: " + state.Diff(d.Want, d.Have)}
	}
}

// lostWrite describes how the end undoes a write of the user to an object. It returns "" if it does not. A write is undone if a field that
// the user changed has its previous value again. A creation is undone if the object is missing although the user has not deleted it.
func (e *End) lostWrite(name string) string {
	var created bool
	var user *database.Change // the last write of the user
	end := backend.Record{Deleted: true}
	for _, c := range e.log() {
		if c.Object != name {
			continue
		}
		end = c.Record
		if c.Actor != database.User {
			continue
		}
		switch c.Op() {
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
		return fmt.Sprintf("%s was created by the user, who has not deleted it, and it is gone", name)
	case end.Deleted || user.Op() != "update" || bytes.Equal(end.Value, user.Record.Value):
		return ""
	}
	before, written, left := fieldsOf(user.Before()), fieldsOf(user.Record), fieldsOf(end)
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
