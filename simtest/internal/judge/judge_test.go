package judge_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

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
	assert.Empty(t, brokenBy(db))
	put(db, "s.1", "a", "", "1", "")
	assert.Equal(t, rule.Orphan, brokenBy(db))
}

func TestTwoOwnersAreAlive(t *testing.T) {
	db := database.New()
	put(db, "s.1", "a", "{}", "1", "")
	put(db, "s.1", "a", "", "1", "")
	put(db, "s.1", "b", "{}", "2", "")
	put(db, "s.1", "child", "{}", "3", owners("1", "2"))
	assert.Empty(t, brokenBy(db), "the first was gone by then")
	put(db, "s.1", "c", "{}", "4", "")
	put(db, "s.1", "child", "{}", "3", owners("4"))
	assert.Equal(t, rule.TwoOwners, brokenBy(db), "c has taken it from b")
}

func TestNextObjectOfANameMayHaveAnotherOwner(t *testing.T) {
	db := database.New()
	put(db, "s.1", "b", "{}", "2", "")
	put(db, "s.1", "c", "{}", "4", "")
	put(db, "s.1", "child", "{}", "3", owners("2"))
	put(db, "s.1", "child", "", "3", owners("2"))
	put(db, "s.1", "child", "{}", "5", owners("4"))
	assert.Empty(t, brokenBy(db))
}

// What is also wrong without faults is not a failure of the plan.
func TestProblemOfRunWithoutFaultsIsNotRepeated(t *testing.T) {
	orphan := func(value string) *judge.End {
		db := database.New()
		put(db, "s.1", "child", value, "2", owners("gone"))
		return judge.Look(db, nil)
	}
	assert.Nil(t, orphan(`{"N":1}`).Beside(orphan(`{"N":2}`), true))
	undone := func(value string) *judge.End {
		db := database.New()
		put(db, "s.1", "a", `{"N":1}`, "1", "")
		put(db, database.User, "a", `{"N":2}`, "1", "")
		put(db, "s.1", "a", value, "1", "")
		return judge.Look(db, nil)
	}
	assert.Nil(t, undone(`{"M":1,"N":1}`).Beside(undone(`{"M":2,"N":1}`), true))
	assert.NotNil(t, undone(`{"M":1,"N":1}`).Beside(undone(`{"M":2,"N":2}`), true))
}

func TestObjectIsStuckOnlyWithFinalizer(t *testing.T) {
	db := database.New()
	put(db, "s.1", "a", "{}", "1", `,"finalizers":["f"]`)
	put(db, "s.1", "b", "{}", "2", `,"deleting":"2026-01-01T00:00:00Z"`)
	assert.Empty(t, brokenBy(db))
	put(db, "s.1", "a", "{}", "1", `,"finalizers":["f"],"deleting":"2026-01-01T00:00:00Z"`)
	assert.Equal(t, rule.Finalizer, brokenBy(db))
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
	assert.False(t, lostBeside(db), "the user has deleted it")
	put(db, user, "a", `{"N":1}`, "2", "")
	put(db, user, "a", `{"N":2}`, "2", "")
	assert.False(t, lostBeside(db))
	put(db, "s.1", "a", `{"N":1}`, "2", "")
	assert.True(t, lostBeside(db), "it is 1 again")
	put(db, "s.1", "a", `{"N":3}`, "2", "")
	assert.False(t, lostBeside(db), "that is another value")
	put(db, "s.1", "a", "", "2", "")
	assert.True(t, lostBeside(db), "nobody was asked")
}

// A write before the user's deletion of the object does not count.
func TestDeletionByUserEndsTheirWrites(t *testing.T) {
	const user = database.User
	db := database.New()
	put(db, user, "a", `{"N":1}`, "1", "")
	put(db, user, "a", `{"N":2}`, "1", "")
	put(db, user, "a", "", "1", "")
	put(db, "s.1", "a", `{"N":1}`, "2", "")
	assert.False(t, lostBeside(db), "it is another object")
	put(db, user, "a", `{"N":2}`, "2", "")
	put(db, "s.1", "a", "", "2", "")
	assert.False(t, lostBeside(db), "the system has created it, and may delete it")
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
	assert.Nil(t, look(func(r *backend.Record) { r.Meta = []byte(`{"uid":"2"}`) }).Beside(fair, false), "UIDs differ in each run")
	for _, change := range []func(*backend.Record){
		func(r *backend.Record) { r.Value = []byte(`{"N":1}`) },
		func(r *backend.Record) { r.Labels = map[string]string{"x": "y"} },
		func(r *backend.Record) { r.Meta = []byte(`{"uid":"1","finalizers":["f"]}`) },
		func(r *backend.Record) { r.Meta = []byte(`{"uid":"1","deleting":"2026-01-01T00:00:00Z"}`) },
	} {
		p := look(change).Beside(fair, false)
		if assert.NotNil(t, p) {
			assert.Equal(t, rule.EndState, p.Rule)
		}
	}
}
