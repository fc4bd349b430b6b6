package rule

// Severity is the effect of a broken rule on the test.
type Severity string

const (
	// Bug fails the test.
	Bug Severity = "bug"

	// Advisory is logged, and does not fail the test: it may be harmless, or needs a fault that lasts longer than real ones.
	Advisory Severity = "advisory"
)

// Rule is a rule that a run can break, such as "orphan". [All] returns all of them.
type Rule string

// The rules.
const (
	World       Rule = "world"
	Always      Rule = "always"
	Goal        Rule = "goal"
	EndState    Rule = "end-state"
	HotLoop     Rule = "hot-loop"
	Churn       Rule = "churn"
	Orphan      Rule = "orphan"
	TwoOwners   Rule = "two-owners"
	Finalizer   Rule = "finalizer"
	LostWrite   Rule = "lost-write"
	Stop        Rule = "stop"
	StaleWrite  Rule = "stale-write"
	StaleDelete Rule = "stale-delete"
	Unrepeated  Rule = "nondeterminism"
)

// rules are in the order in which a report names them.
var rules = []struct {
	rule     Rule
	severity Severity
	means    string
}{
	{World, Bug, "The world itself does not work: a system cannot be made, or a step fails."},
	{Always, Bug, "Something happened that World.Always forbids, if only for a moment."},
	{Goal, Bug, "The systems have nothing left to do, and World.Goal does not hold: nothing will repair it."},
	{EndState, Bug, "The systems have nothing left to do, and the objects are not those of the run without faults: nothing will repair them."},
	{HotLoop, Bug, "The systems reconcile again and again and write nothing: in production they use up a processor and the database."},
	{Churn, Bug, "The systems write again and again: two of them undo each other's work, or each write causes the next."},
	{Orphan, Bug, "An object is left although the life of each of its owners has ended: nothing will delete it."},
	{TwoOwners, Bug, "Two owners that live control one object, or one took it from the other: both will change and delete it."},
	{Finalizer, Bug, "An object is being deleted and a finalizer is left: it stays forever, and so does its name."},
	{LostWrite, Bug, "A write of the user was acknowledged, and the systems have undone it."},
	{Stop, Bug, "A part has ended by itself, returned an error when it was told to stop, or has not stopped in time: the program would end, or hang."},
	{StaleWrite, Advisory, "A reconcile wrote on the basis of a cache that did not show the last write of the same system: it may do its work twice."},
	{StaleDelete, Advisory, "A reconcile deleted on the basis of a cache that shows the past: it may delete what has just been made. Read the store first, or delete with store.IfUID."},
	{Unrepeated, Advisory, "Two runs of one plan differ: a map, a random number, or a goroutine decides what happens, and no plan can be trusted."},
}

// All returns every rule.
func All() []Rule {
	all := make([]Rule, len(rules))
	for i, r := range rules {
		all[i] = r.rule
	}
	return all
}

// Severity says what breaking the rule does to the test.
func (r Rule) Severity() Severity {
	if i := r.index(); i >= 0 {
		return rules[i].severity
	}
	return Bug
}

// Means says in a sentence or two what breaking the rule means. It is empty for a rule that [All] does not have.
func (r Rule) Means() string {
	if i := r.index(); i >= 0 {
		return rules[i].means
	}
	return ""
}

// index returns the index of the rule in rules, or -1.
func (r Rule) index() int {
	for i := range rules {
		if rules[i].rule == r {
			return i
		}
	}
	return -1
}

// Problem is a rule that a run has broken.
type Problem struct {
	Rule  Rule
	About string // with the rule, identifies a sort of problem
	Text  string // a sentence
}

// Sort is the same for problems that a report counts together.
func (p *Problem) Sort() string { return string(p.Rule) + " " + p.About }
