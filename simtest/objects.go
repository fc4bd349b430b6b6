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

// sameFunc is World.Same.
type sameFunc = func(kind, key string, value any) any

// objectTexts returns the text of each object that is compared with that of the run without faults, by name. objects has the last change of each.
func objectTexts(objects map[string]*change, same sameFunc) map[string]string {
	state := make(map[string]string)
	for name, c := range objects {
		rec := c.record
		if same != nil || bytes.Contains(rec.Value, []byte(`"Since":`)) {
			rec.Value = comparedValue(c.kind, rec, same)
		}
		state[name] = describe(rec)
	}
	return state
}

// comparedValue returns the part of a value that is compared, as JSON.
func comparedValue(kind string, rec backend.Record, same sameFunc) []byte {
	var value any
	d := json.NewDecoder(bytes.NewReader(rec.Value))
	d.UseNumber()
	if err := d.Decode(&value); err != nil { // another codec
		value = string(rec.Value)
	}
	dropTimes(value)
	if same != nil {
		value = same(kind, rec.Key, value)
	}
	return []byte(jsonOf(value))
}

// dropTimes removes from each store.Condition in a decoded value when it has become so, and at which generation: a fault may delay both.
func dropTimes(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			dropTimes(v)
		}
	case map[string]any:
		_, hasType := value["Type"].(string)
		_, hasOK := value["OK"].(bool)
		_, hasSince := value["Since"].(string)
		if _, hasGeneration := value["Generation"]; hasType && hasOK && hasSince && hasGeneration {
			delete(value, "Since")
			delete(value, "Generation")
		}
		for _, v := range value {
			dropTimes(v)
		}
	}
}

// difference is an object that differs from the expected one. A text is empty if the object does not exist.
type difference struct{ name, have, want string }

// String returns a line of a timeline.
func (d difference) String() string {
	switch {
	case d.have == "":
		return "- " + d.name + " " + d.want
	case d.want == "":
		return "+ " + d.name + " " + d.have
	default:
		return "~ " + d.name + " " + unlike(d.want, d.have)
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

// describe returns the text of an object: its value, and the part of its envelope that is the same in every run.
func describe(rec backend.Record) string {
	text := string(rec.Value)
	if len(rec.Labels) > 0 {
		text += " labels=" + jsonOf(rec.Labels)
	}
	if !hasField(rec, "owners") && !hasField(rec, "finalizers") && !hasField(rec, "deleting") {
		return text
	}
	e := envelopeOf(rec)
	var owners []string
	for _, o := range e.Owners {
		owners = append(owners, objectName(o.Kind, o.Key))
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

// diff returns how one text of an object became another: the fields of the value if both are JSON objects, and otherwise both texts.
func diff(before, after string) string {
	changes := fieldDiffs(before, after, func(field, before, after string) string { return field + before + " -> " + after })
	if len(changes) == 0 {
		return "only its version"
	}
	return strings.Join(changes, ", ")
}

// unlike returns how the text of an object differs from the expected one, in the form of diff.
func unlike(want, have string) string {
	return strings.Join(fieldDiffs(want, have, func(field, want, have string) string {
		return field + "is " + have + ", expected " + want
	}), "; ")
}

// fieldDiffs returns what format makes of each difference: "" or the field, a colon, and a space, and both values.
func fieldDiffs(one, other string, format func(field, one, other string) string) (all []string) {
	var a, b map[string]any
	aRest, aErr := decodeFirst(one, &a)
	bRest, bErr := decodeFirst(other, &b)
	if aErr != nil || bErr != nil {
		return []string{format("", one, other)}
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if x, y := jsonOf(a[k]), jsonOf(b[k]); x != y {
			all = append(all, format(k+": ", x, y))
		}
	}
	if aRest != bRest {
		all = append(all, format("", fmt.Sprintf("%q", strings.TrimSpace(aRest)), fmt.Sprintf("%q", strings.TrimSpace(bRest))))
	}
	return all
}

// decodeFirst decodes the JSON at the beginning of text, and returns what follows it.
func decodeFirst(text string, into any) (rest string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(into); err != nil {
		return "", err
	}
	return text[d.InputOffset():], nil
}
