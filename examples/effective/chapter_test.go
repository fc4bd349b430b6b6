package effective_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/simtest"
)

// pages is the directory of the guide.
const pages = "../../docs/effective"

// chapter is what a chapter claims.
type chapter struct {
	dir   string               // of its programs
	page  string               // in the directory of the guide
	wrong func() simtest.World // fails by rule, and plan is the smallest plan that shows it
	right func() simtest.World // fails by no rule
	rule  simtest.Rule
	plan  string
	also  []string // plans whose failures of the wrong program the page shows too

	more []chapter // other wrong programs on the same page, and what is right instead
}

// pairs is how many pairs of faults the right program has to survive in step mode, after every single fault.
const pairs = 40

// test checks the claims of a chapter in each mode of the kit, and that its page quotes nothing else: each block of Go stands in a file
// of its programs or their test, and each block of text is what the kit prints in step mode. In run mode, timelines have other lines.
func (c chapter) test(t *testing.T) {
	t.Helper()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			printed := c.testPrograms(t, mode)
			for _, more := range c.more {
				printed = append(printed, more.testPrograms(t, mode)...)
			}
			if mode == "step" {
				c.testPage(t, printed)
			}
		})
	}
}

// modes are both, or the one that the flag of the kit asks for.
func modes() []string {
	if asked := flag.Lookup("simtest.mode").Value.String(); asked != "" {
		return []string{strings.ToLower(asked)}
	}
	return []string{"step", "run"}
}

// in returns a world in a mode.
func in(mode string, world func() simtest.World) func() simtest.World {
	return func() simtest.World {
		w := world()
		w.Mode = mode
		return w
	}
}

// testPrograms checks that the wrong program fails as it should and that the right one does not, and returns what the kit prints.
func (c chapter) testPrograms(t *testing.T, mode string) (printed []string) {
	t.Helper()
	found := false
	for _, f := range c.failures(t, mode) {
		t.Logf("%s: %s", f.Rule, f.Plan)
		found = found || f.Rule == c.rule && f.Plan.String() == c.plan
		printed = append(printed, f.String())
	}
	if !found {
		t.Errorf("the wrong program does not break the rule %q under the plan %q:\n%s", c.rule, c.plan, strings.Join(printed, "\n\n"))
	}
	for _, text := range c.also {
		f := c.replay(t, mode, text)
		if f == nil {
			t.Errorf("the wrong program survives the plan %q", text)
			continue
		}
		printed = append(printed, f.String())
	}
	right := simtest.Explore(t, in(mode, func() simtest.World {
		w := c.right()
		if w.Pairs = pairs; mode == "run" {
			w.Pairs, w.Horizon = -1, w.Horizon/2 // a single fault delays less
		}
		return w
	}))
	for _, f := range right.Failures {
		t.Errorf("the right program reports a failure: %s", f)
	}
	for _, f := range right.Advice {
		t.Logf("the right program: %s: %s: %s", f.Rule, f.Plan, f.Problem)
	}
	t.Logf("right: %d of %d plans", right.Failing, right.Plans)
	return printed
}

// failures returns those of the wrong program. In run mode, only its plan is tried: that the modes find the same plans is tested in
// simtest/classics.
func (c chapter) failures(t *testing.T, mode string) []*simtest.Failure {
	t.Helper()
	if mode == "run" {
		if f := c.replay(t, mode, c.plan); f != nil {
			return []*simtest.Failure{f}
		}
		return nil
	}
	return simtest.Explore(t, in(mode, func() simtest.World {
		w := c.wrong()
		w.Pairs = -1 // one fault is enough
		return w
	})).Failures
}

// replay runs the wrong program under a plan.
func (c chapter) replay(t *testing.T, mode, text string) *simtest.Failure {
	t.Helper()
	plan, err := simtest.ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	return simtest.Replay(t, in(mode, c.wrong), plan)
}

// testPage compares the blocks of the page with the programs and their test, and with what the kit has printed.
func (c chapter) testPage(t *testing.T, printed []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(pages, c.page))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, file := range append(files, c.dir+"_test.go") {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, string(src))
	}
	shown := false
	for language, code := range blocks(string(page)) {
		switch language {
		case "go":
			if !quotes(programs, code) {
				t.Errorf("%s quotes code that is in no file of %s:\n%s", c.page, c.dir, code)
			}
		case "text":
			shown = true
			if !quotes(printed, code) {
				t.Errorf("%s shows what the kit does not print:\n%s\nIt prints:\n%s", c.page, code, strings.Join(printed, "\n\n"))
			}
		case "sh":
		default:
			t.Errorf("%s has a block of %q: use go, text, or sh", c.page, language)
		}
	}
	if !shown {
		t.Errorf("%s does not show what the kit prints:\n%s", c.page, strings.Join(printed, "\n\n"))
	}
}

// blocks yields the language and the text of each fenced block of a page.
func blocks(page string) func(yield func(language, code string) bool) {
	return func(yield func(language, code string) bool) {
		parts := strings.Split("\n"+page, "\n```")
		for i := 1; i < len(parts); i += 2 {
			language, code, _ := strings.Cut(parts[i], "\n")
			if !yield(language, code) {
				return
			}
		}
	}
}

// quotes reports whether the lines of a quote are lines of one of the texts, next to each other. Indentation does not count.
func quotes(texts []string, quote string) bool {
	want := "\n" + unindent(quote) + "\n"
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains("\n"+unindent(text)+"\n", want) })
}

// unindent removes space from the beginning and the end of each line.
func unindent(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
