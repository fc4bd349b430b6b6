package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/store/backend"
)

// At returns the text of each object at a version, by name. If same is set, it replaces each text.
func At(db *database.DB, v informer.Version, same func(kind, key, text string) string) map[string]string {
	state := make(map[string]string)
	for name, c := range db.Changes(v) {
		text := Describe(c.Record)
		if same != nil {
			text = same(c.Kind, c.Record.Key, text)
		}
		state[name] = text
	}
	return state
}

// Difference is an object that differs from the expected one. A text is empty if the object does not exist.
type Difference struct{ Name, Have, Want string }

// String returns a line of a timeline.
func (d Difference) String() string {
	switch {
	case d.Have == "":
		return "- " + d.Name + " " + d.Want
	case d.Want == "":
		return "+ " + d.Name + " " + d.Have
	default:
		return "~ " + d.Name + " " + Diff(d.Want, d.Have)
	}
}

// Compare returns the objects that differ, in order of name.
func Compare(have, want map[string]string) (all []Difference) {
	for name, text := range have {
		if want[name] != text {
			all = append(all, Difference{name, text, want[name]})
		}
	}
	for name, text := range want {
		if _, ok := have[name]; !ok {
			all = append(all, Difference{name, "", text})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Describe returns the text of an object: its value, and the part of its envelope that is the same in every run.
func Describe(rec backend.Record) string {
	text := string(rec.Value)
	if len(rec.Labels) > 0 {
		text += " labels=" + jsonOf(rec.Labels)
	}
	if !database.Says(rec, "owners") && !database.Says(rec, "finalizers") && !database.Says(rec, "deleting") {
		return text
	}
	e := database.EnvelopeOf(rec)
	var owners []string
	for _, o := range e.Owners {
		owners = append(owners, database.Name(o.Kind, o.Key))
	}
	if len(owners) > 0 {
		text += " owners=" + strings.Join(owners, ",")
	}
	if len(e.Finalizers) > 0 {
		text += " finalizers=" + strings.Join(e.Finalizers, ",")
	}
	if !e.Deleting.IsZero() {
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

// Diff returns the difference of two texts of objects: the fields of the value if both are JSON objects of the same shape, and otherwise
// both texts.
func Diff(before, after string) string {
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
		return "only its version"
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
