package simtest

import "github.com/setpoint-go/setpoint/simtest/internal/rule"

// Severity says what a [Failure] does to the test.
type Severity string

const (
	// Bug fails the test.
	Bug = Severity(rule.Bug)

	// Advisory is logged, and does not fail the test: it may be harmless, or needs a fault that lasts longer than real ones.
	Advisory = Severity(rule.Advisory)
)

// Rule is a rule that a [Failure] breaks, such as "orphan". [Rules] returns all of them.
type Rule string

// Rules returns every rule of the kit.
func Rules() []Rule {
	var all []Rule
	for _, r := range rule.All() {
		all = append(all, Rule(r))
	}
	return all
}

// Severity says what breaking the rule does to the test. [Failure.Severity] may be lower, if the failure needs an unfair fault. It is higher
// if two runs without faults differ.
func (r Rule) Severity() Severity { return Severity(rule.Rule(r).Severity()) }

// Means says in a sentence or two what breaking the rule means. It is empty for a rule that [Rules] does not have.
func (r Rule) Means() string { return rule.Rule(r).Means() }
