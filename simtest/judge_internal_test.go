package simtest

import (
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/store/backend"
)

// put commits a record, or a tombstone if value is empty. Rest is the envelope without the UID.
func put(db *database, actor, key, value, uid, rest string) {
	db.commit(actor, "n", key, backend.Record{
		Value: []byte(value), Meta: fmt.Appendf(nil, `{"uid":%q%s}`, uid, rest), Deleted: value == "",
	})
}

func owners(uids ...string) (text string) {
	for _, uid := range uids {
		text += fmt.Sprintf(`,{"kind":"n","key":"x","uid":%q,"controller":true}`, uid)
	}
	return `,"owners":[` + text[1:] + `]`
}

// Each case is a log of commits, with the rule that the end breaks after each of them.
func TestRulesOfTheEnd(t *testing.T) {
	const deleting = `,"deleting":"2026-01-01T00:00:00Z"`
	type commit struct {
		actor, key, value, uid, rest string
		broken                       Rule
	}
	for name, log := range map[string][]commit{
		"an orphan has no live owner": {
			{"s.1", "a", "{}", "1", "", ""},
			{"s.1", "child", "{}", "2", owners("1", "deleted"), ""},
			{"s.1", "a", "", "1", "", ruleOrphan},
		},
		"two owners are alive at the same time": {
			{"s.1", "a", "{}", "1", "", ""},
			{"s.1", "a", "", "1", "", ""},
			{"s.1", "b", "{}", "2", "", ""},
			{"s.1", "child", "{}", "3", owners("1", "2"), ""},
			{"s.1", "c", "{}", "4", "", ""},
			{"s.1", "child", "{}", "3", owners("4"), ruleTwoOwners}, // c has taken it from b
		},
		"the next object of a name may have another owner": {
			{"s.1", "b", "{}", "2", "", ""},
			{"s.1", "c", "{}", "4", "", ""},
			{"s.1", "child", "{}", "3", owners("2"), ""},
			{"s.1", "child", "", "3", owners("2"), ""},
			{"s.1", "child", "{}", "5", owners("4"), ""},
		},
		"a deletion waits for a finalizer": {
			{"s.1", "a", "{}", "1", `,"finalizers":["f"]`, ""},
			{"s.1", "b", "{}", "2", deleting, ""},
			{"s.1", "a", "{}", "1", `,"finalizers":["f"]` + deleting, ruleFinalizer},
		},
		"a write is lost unless the user undid it": {
			{userActor, "a", `{"N":1}`, "1", "", ""},
			{userActor, "a", "", "1", "", ""},
			{userActor, "a", `{"N":1}`, "2", "", ""},
			{userActor, "a", `{"N":2}`, "2", "", ""},
			{"s.1", "a", `{"N":1}`, "2", "", ruleLostWrite},
			{"s.1", "a", `{"N":3}`, "2", "", ""}, // another value
			{"s.1", "a", "", "2", "", ruleLostWrite},
		},
		"a deletion by the user ends their writes": {
			{userActor, "a", `{"N":1}`, "1", "", ""},
			{userActor, "a", `{"N":2}`, "1", "", ""},
			{userActor, "a", "", "1", "", ""},
			{"s.1", "a", `{"N":1}`, "2", "", ""}, // another object
			{userActor, "a", `{"N":2}`, "2", "", ""},
			{"s.1", "a", "", "2", "", ""}, // the system has created it, and may delete it
		},
	} {
		db, fair := newDatabase(), newDatabase()
		put(fair, "s.1", "a", `{"N":9}`, "1", "")
		for i, c := range log {
			put(db, c.actor, c.key, c.value, c.uid, c.rest)
			var broken Rule
			if p := examine(db, nil).problemBeside(examine(fair, nil), true); p != nil {
				broken = p.rule
			}
			if broken != c.broken {
				t.Errorf("%s: after commit %d, the broken rule is %q, want %q", name, i+1, broken, c.broken)
			}
		}
	}
}

// A problem that the run without faults has too is not a failure of the plan.
func TestProblemOfRunWithoutFaultsIsNotRepeated(t *testing.T) {
	orphan := func(value string) *finalState {
		db := newDatabase()
		put(db, "s.1", "child", value, "2", owners("deleted"))
		return examine(db, nil)
	}
	if p := orphan(`{"N":1}`).problemBeside(orphan(`{"N":2}`), true); p != nil {
		t.Errorf("beside another orphan: %+v, want nil", p)
	}
	undone := func(value string) *finalState {
		db := newDatabase()
		put(db, "s.1", "a", `{"N":1}`, "1", "")
		put(db, userActor, "a", `{"N":2}`, "1", "")
		put(db, "s.1", "a", value, "1", "")
		return examine(db, nil)
	}
	if p := undone(`{"M":1,"N":1}`).problemBeside(undone(`{"M":2,"N":1}`), true); p != nil {
		t.Errorf("beside an end with the same lost write: %+v, want nil", p)
	}
	if undone(`{"M":1,"N":1}`).problemBeside(undone(`{"M":2,"N":2}`), true) == nil {
		t.Error("beside an end without a lost write: nil, want a problem")
	}
}

func TestStateHasLabelsOwnersAndFinalizers(t *testing.T) {
	end := func(change func(*backend.Record)) *finalState {
		db := newDatabase()
		r := backend.Record{Value: []byte("{}"), Meta: []byte(`{"uid":"1"}`)}
		change(&r)
		db.commit("s.1", "n", "a", r)
		return examine(db, nil)
	}
	fair := end(func(*backend.Record) {})
	if p := end(func(r *backend.Record) { r.Meta = []byte(`{"uid":"2"}`) }).problemBeside(fair, false); p != nil {
		t.Errorf("%+v, want nil: UIDs differ in each run", p)
	}
	for _, change := range []func(*backend.Record){
		func(r *backend.Record) { r.Value = []byte(`{"N":1}`) },
		func(r *backend.Record) { r.Labels = map[string]string{"x": "y"} },
		func(r *backend.Record) { r.Meta = []byte(`{"uid":"1","finalizers":["f"]}`) },
		func(r *backend.Record) { r.Meta = []byte(`{"uid":"1","deleting":"2026-01-01T00:00:00Z"}`) },
	} {
		if p := end(change).problemBeside(fair, false); p == nil || p.rule != ruleEndState {
			t.Errorf("%+v, want a problem with rule %q", p, ruleEndState)
		}
	}
}

func TestOpOfACommit(t *testing.T) {
	none, deleted := backend.Record{}, backend.Record{Version: 2, Deleted: true}
	there := backend.Record{Version: 1, Meta: []byte(`{"uid":"1"}`)}
	deleting := backend.Record{Version: 1, Meta: []byte(`{"uid":"1","deleting":"2026-01-01T00:00:00Z"}`)}
	for _, c := range []struct {
		before, after backend.Record
		want          string
	}{
		{none, there, "create"},
		{deleted, there, "create"},
		{there, there, "update"},
		{there, deleting, "delete"},
		{deleting, deleting, "update"}, // such as the removal of a finalizer
		{deleting, deleted, "delete"},
		{there, deleted, "delete"},
	} {
		if got := opOf(c.before, c.after); got != c.want {
			t.Errorf("%v, then %v: opOf = %q, want %q", c.before, c.after, got, c.want)
		}
	}
}
