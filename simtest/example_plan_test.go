package simtest_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/simtest"
)

// The text of a plan is what a failure prints, what -simtest.plan takes, and what a file of the corpus has.
func ExampleParsePlan() {
	plan, err := simtest.ParsePlan("skip(step#2) crash-after(sites update site/a#1)")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range plan {
		fmt.Printf("%-11s %q: %s of %q, number %d\n", f.Do, f.System, f.Op, f.Object, f.Nth)
	}
	fmt.Println(plan)

	_, err = simtest.ParsePlan("crash-sometime(sites update site/a#1)")
	fmt.Println(err)

	// Output:
	// skip        "":  of "", number 2
	// crash-after "sites": update of "site/a", number 1
	// skip(step#2) crash-after(sites update site/a#1)
	// simtest: parse plan: crash-sometime: there is no such fault
}

// What an alarm means, and whether it fails the test.
func ExampleRule() {
	for _, rule := range simtest.Rules() {
		if rule.Severity() == simtest.Advisory {
			fmt.Printf("%s is an %s\n", rule, rule.Severity())
		}
	}
	fmt.Println(simtest.Rule("orphan").Means())

	// Output:
	// stale-write is an advisory
	// stale-delete is an advisory
	// nondeterminism is an advisory
	// An object is left although the life of each of its owners has ended: nothing will delete it.
}
