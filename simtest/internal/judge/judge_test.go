package judge_test

import (
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/judge"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/store/backend"
)

// put commits a record, or a tombstone if value is empty. Rest is the envelope without the UID.
func put(db *database.DB, actor, key, value, uid, rest string) {
	r := backend.Record{Value: []byte(value), Meta: fmt.Appendf(nil, `{"uid":%q%s}`, uid, rest), Deleted: value == ""}
	db.Commit(actor, "n", key, r)
}

// brokenBy returns the rule that the end of a database breaks beside an empty one with a goal.
func brokenBy(db *database.DB) rule.Rule {
	p := judge.Look(db, nil).Beside(judge.Look(database.New(), nil), true)
	if p == nil {
		return ""
	}
	return p.Rule
}

func owners(uids ...string) (text string) {
	for _, uid := range uids {
		text += fmt.Sprintf(`,{"kind":"n","key":"x","uid":%q,"controller":true}`, uid)
	}
	return `,"owners":[` + text[1:] + `]`
}

func TestOrphanHasNoLiveOwner(t *testing.T) {
	db := database.New()
	put(db, "s.1", "a", "{}", "1", "")
	put(db, "s.1", "child", "{}", "2", owners("1", "gone"))
	if got := brokenBy(db); got != "" {
		t.Errorf(`brokenBy(db) = %q, want ""`, got)
	}
	put(db, "s.1", "a", "", "1", "")
	if got := brokenBy(db); got != rule.Orphan {
		t.Errorf("brokenBy(db) = %q, want %q", got, rule.Orphan)
	}
}

func TestTwoOwnersAreAlive(t *testing.T) {
	db := database.New()
	put(db, "s.1", "a", "{}", "1", "")
	put(db, "s.1", "a", "", "1", "")
	put(db, "s.1", "b", "{}", "2", "")
	put(db, "s.1", "child", "{}", "3", owners("1", "2"))
	if got := brokenBy(db); got != "" {
		t.Errorf(`brokenBy(db) = %q, want "": the first was gone by then`, got)
	}
	put(db, "s.1", "c", "{}", "4", "")
	put(db, "s.1", "child", "{}", "3", owners("4"))
	if got := brokenBy(db); got != rule.TwoOwners {
		t.Errorf("brokenBy(db) = %q, want %q: c has taken it from b", got, rule.TwoOwners)
	}
}

func TestNextObjectOfANameMayHaveAnotherOwner(t *testing.T) {
	db := database.New()
	put(db, "s.1", "b", "{}", "2", "")
	put(db, "s.1", "c", "{}", "4", "")
	put(db, "s.1", "child", "{}", "3", owners("2"))
	put(db, "s.1", "child", "", "3", owners("2"))
	put(db, "s.1", "child", "{}", "5", owners("4"))
	if got := brokenBy(db); got != "" {
		t.Errorf(`brokenBy(db) = %q, want ""`, got)
	}
}

// What is also wrong without faults is not a failure of the plan.
func TestProblemOfRunWithoutFaultsIsNotRepeated(t *testing.T) {
	orphan := func(value string) *judge.End {
		db := database.New()
		put(db, "s.1", "child", value, "2", owners("gone"))
		return judge.Look(db, nil)
	}
	if got := orphan(`{"N":1}`).Beside(orphan(`{"N":2}`), true); got != nil {
		t.Errorf("Beside of two orphans = %+v, want nil", got)
	}
	undone := func(value string) *judge.End {
		db := database.New()
		put(db, "s.1", "a", `{"N":1}`, "1", "")
		put(db, database.User, "a", `{"N":2}`, "1", "")
		put(db, "s.1", "a", value, "1", "")
		return judge.Look(db, nil)
	}
	if got := undone(`{"M":1,"N":1}`).Beside(undone(`{"M":2,"N":1}`), true); got != nil {
		t.Errorf("Beside of two ends with the same lost write = %+v, want nil", got)
	}
	if undone(`{"M":1,"N":1}`).Beside(undone(`{"M":2,"N":2}`), true) == nil {
		t.Error("Beside of a lost write and an end without one = nil, want a problem")
	}
}

func TestObjectIsStuckOnlyWithFinalizer(t *testing.T) {
	db := database.New()
	put(db, "s.1", "a", "{}", "1", `,"finalizers":["f"]`)
	put(db, "s.1", "b", "{}", "2", `,"deleting":"2026-01-01T00:00:00Z"`)
	if got := brokenBy(db); got != "" {
		t.Errorf(`brokenBy(db) = %q, want ""`, got)
	}
	put(db, "s.1", "a", "{}", "1", `,"finalizers":["f"],"deleting":"2026-01-01T00:00:00Z"`)
	if got := brokenBy(db); got != rule.Finalizer {
		t.Errorf("brokenBy(db) = %q, want %q", got, rule.Finalizer)
	}
}

// lostBeside returns whether the end of a database loses a write of the user, beside another end in which the object is there.
func lostBeside(db *database.DB) bool {
	fair := database.New()
	put(fair, "s.1", "a", `{"N":9}`, "1", "")
	p := judge.Look(db, nil).Beside(judge.Look(fair, nil), true)
	return p != nil && p.Rule == rule.LostWrite
}

func TestWriteIsLostUnlessUserUndidIt(t *testing.T) {
	const user = database.User
	db := database.New()
	put(db, user, "a", `{"N":1}`, "1", "")
	put(db, user, "a", "", "1", "")
	if lostBeside(db) {
		t.Error("lostBeside(db) = true, want false: the user has deleted it")
	}
	put(db, user, "a", `{"N":1}`, "2", "")
	put(db, user, "a", `{"N":2}`, "2", "")
	if lostBeside(db) {
		t.Error("lostBeside(db) = true, want false")
	}
	put(db, "s.1", "a", `{"N":1}`, "2", "")
	if !lostBeside(db) {
		t.Error("lostBeside(db) = false, want true: it is 1 again")
	}
	put(db, "s.1", "a", `{"N":3}`, "2", "")
	if lostBeside(db) {
		t.Error("lostBeside(db) = true, want false: that is another value")
	}
	put(db, "s.1", "a", "", "2", "")
	if !lostBeside(db) {
		t.Error("lostBeside(db) = false, want true: nobody was asked")
	}
}

// A write before the user's deletion of the object does not count.
func TestDeletionByUserEndsTheirWrites(t *testing.T) {
	const user = database.User
	db := database.New()
	put(db, user, "a", `{"N":1}`, "1", "")
	put(db, user, "a", `{"N":2}`, "1", "")
	put(db, user, "a", "", "1", "")
	put(db, "s.1", "a", `{"N":1}`, "2", "")
	if lostBeside(db) {
		t.Error("lostBeside(db) = true, want false: it is another object")
	}
	put(db, user, "a", `{"N":2}`, "2", "")
	put(db, "s.1", "a", "", "2", "")
	if lostBeside(db) {
		t.Error("lostBeside(db) = true, want false: the system has created it, and may delete it")
	}
}

func TestStateHasLabelsOwnersAndFinalizers(t *testing.T) {
	look := func(change func(*backend.Record)) *judge.End {
		db := database.New()
		r := backend.Record{Value: []byte("{}"), Meta: []byte(`{"uid":"1"}`)}
		change(&r)
		db.Commit("s.1", "n", "a", r)
		return judge.Look(db, nil)
	}
	fair := look(func(*backend.Record) {})
	if got := look(func(r *backend.Record) { r.Meta = []byte(`{"uid":"2"}`) }).Beside(fair, false); got != nil {
		t.Errorf("Beside = %+v, want nil: UIDs differ in each run", got)
	}
	for _, change := range []func(*backend.Record){
		func(r *backend.Record) { r.Value = []byte(`{"N":1}`) },
		func(r *backend.Record) { r.Labels = map[string]string{"x": "y"} },
		func(r *backend.Record) { r.Meta = []byte(`{"uid":"1","finalizers":["f"]}`) },
		func(r *backend.Record) { r.Meta = []byte(`{"uid":"1","deleting":"2026-01-01T00:00:00Z"}`) },
	} {
		p := look(change).Beside(fair, false)
		if p == nil || p.Rule != rule.EndState {
			t.Errorf("Beside = %+v, want a problem with rule %q", p, rule.EndState)
		}
	}
}
