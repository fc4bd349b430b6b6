package simtest

// Severity says what a [Failure] does to the test.
type Severity string

const (
	// Bug fails the test.
	Bug Severity = "bug"

	// Advisory is logged, and does not fail the test: it may be harmless, or needs a fault that lasts longer than real ones.
	Advisory Severity = "advisory"
)

// Rule is a rule that a [Failure] breaks, such as "orphan". [Rules] returns all of them.
type Rule string

// The rules.
const (
	ruleWorld          Rule = "world"
	ruleAlways         Rule = "always"
	ruleGoal           Rule = "goal"
	ruleEndState       Rule = "end-state"
	ruleHotLoop        Rule = "hot-loop"
	ruleChurn          Rule = "churn"
	ruleOrphan         Rule = "orphan"
	ruleTwoOwners      Rule = "two-owners"
	ruleFinalizer      Rule = "finalizer"
	ruleLostWrite      Rule = "lost-write"
	ruleStop           Rule = "stop"
	rulePanic          Rule = "panic"
	ruleFailing        Rule = "failing"
	ruleStaleWrite     Rule = "stale-write"
	ruleStaleDelete    Rule = "stale-delete"
	ruleNondeterminism Rule = "nondeterminism"
)

// rules are in the order in which a report names them.
var rules = []struct {
	rule     Rule
	severity Severity
	means    string
}{
	{ruleWorld, Bug, "The world itself does not work: a system cannot be made, or a step fails."},
	{ruleAlways, Bug, "Something happened that World.Always forbids, if only for a moment."},
	{ruleGoal, Bug, "The systems have nothing left to do, and World.Goal does not hold: nothing will repair it."},
	{ruleEndState, Bug, "The systems have nothing left to do, and the objects are not those of the run without faults: nothing will repair them."},
	{ruleHotLoop, Bug, "The systems reconcile again and again and write nothing: in production they use up a processor and the database."},
	{ruleChurn, Bug, "The systems write again and again: two of them undo each other's work, or each write causes the next."},
	{ruleOrphan, Bug, "An object is left although the life of each of its owners has ended: nothing will delete it."},
	{ruleTwoOwners, Bug, "Two owners that live control one object, or one took it from the other: both will change and delete it."},
	{ruleFinalizer, Bug, "An object is being deleted and a finalizer is left: it stays forever, and so does its name."},
	{ruleLostWrite, Bug, "A write of the user was acknowledged, and the systems have undone it."},
	{ruleStop, Bug, "A part has ended by itself, returned an error when it had to stop, or has not stopped in time: the program would end, or hang."},
	{rulePanic, Bug, "A reconcile panicked. The controller captures that and tries again, but what the reconcile has begun is left half done."},
	{ruleFailing, Bug, "The systems have nothing left to do but to try again what has always failed: nothing will repair it."},
	{ruleStaleWrite, Advisory, "A reconcile created an object that the run without faults never has, and its cache did not show the last write of the same system: it may do its work twice."},
	{ruleStaleDelete, Advisory, "A reconcile deleted on the basis of a cache that shows the past: it may delete what has just been made. Read the store first, or delete with store.IfUID."},
	{ruleNondeterminism, Advisory, "Two runs of one plan differ: a map, a random number, or a goroutine decides what happens, and no plan can be trusted."},
}

// Rules returns every rule of the kit.
func Rules() []Rule {
	all := make([]Rule, len(rules))
	for i, r := range rules {
		all[i] = r.rule
	}
	return all
}

// Severity says what breaking the rule does to the test. [Failure.Severity] may be lower, if the failure needs an unfair fault. It is higher
// if two runs without faults differ.
func (r Rule) Severity() Severity {
	if i := r.index(); i >= 0 {
		return rules[i].severity
	}
	return Bug
}

// Means says in a sentence or two what breaking the rule means. It is empty for a rule that [Rules] does not have.
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

// problem is a rule that a run has broken.
type problem struct {
	rule  Rule
	about string // with the rule, identifies a sort of problem
	text  string // a sentence
	stack []string

	// creates, if set, is the object that a doubtful write creates. The write is harmless if the run without faults has an object of that name too:
	// doing the work twice does not make two objects.
	creates string
}

// sort is the same for problems that a report counts together.
func (p *problem) sort() string { return string(p.rule) + " " + p.about }
