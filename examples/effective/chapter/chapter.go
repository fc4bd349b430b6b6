// Package chapter tests a chapter of the guide "Effective controllers": the page in docs/effective, and the programs that it quotes.
package chapter

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/simtest"
)

// Chapter is what a chapter claims.
type Chapter struct {
	Page  string               // in docs/effective
	Wrong func() simtest.World // fails by Rule, and Plan is the smallest plan that shows it
	Right func() simtest.World // fails by no rule
	Rule  simtest.Rule
	Plan  string
	Also  []string // plans whose failures of the wrong program the page shows too

	More []Chapter // other wrong programs on the same page, and what is right instead
}

// pairs is how many pairs of faults the right program has to survive, after every single fault.
const pairs = 40

// Test checks the claims of a chapter, and that its page quotes nothing else: each block of Go stands in a file of the current
// directory, and each block of text is what the kit prints.
func Test(t *testing.T, c Chapter) {
	t.Helper()
	printed := testPrograms(t, c)
	for _, more := range c.More {
		printed = append(printed, testPrograms(t, more)...)
	}
	testPage(t, c.Page, printed)
}

// testPrograms checks that the wrong program fails as it should and that the right one does not, and returns what the kit prints.
func testPrograms(t *testing.T, c Chapter) (printed []string) {
	t.Helper()
	wrong := simtest.Explore(t, func() simtest.World {
		w := c.Wrong()
		w.Pairs = -1 // one fault is enough
		return w
	})
	found := false
	for _, f := range wrong.Failures {
		t.Logf("%s: %s", f.Rule, f.Plan)
		found = found || f.Rule == c.Rule && f.Plan.String() == c.Plan
		printed = append(printed, f.String())
	}
	if !found {
		t.Errorf("the wrong program does not break the rule %q under the plan %q:\n%s", c.Rule, c.Plan, strings.Join(printed, "\n\n"))
	}
	for _, text := range c.Also {
		plan, err := simtest.ParsePlan(text)
		if err != nil {
			t.Fatal(err)
		}
		f := simtest.Replay(t, c.Wrong, plan)
		if f == nil {
			t.Errorf("the wrong program survives the plan %q", text)
			continue
		}
		printed = append(printed, f.String())
	}
	right := simtest.Explore(t, func() simtest.World {
		w := c.Right()
		w.Pairs = pairs
		return w
	})
	for _, f := range right.Failures {
		t.Errorf("the right program is not silent: %s", f)
	}
	for _, f := range right.Advice {
		t.Logf("the right program: %s: %s", f.Rule, f.Plan)
	}
	t.Logf("wrong: %d of %d plans; right: %d of %d", wrong.Failing, wrong.Plans, right.Failing, right.Plans)
	return printed
}

// testPage compares the blocks of a page with the files of the current directory, and with what the kit has printed.
func testPage(t *testing.T, name string, printed []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "effective", name))
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
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
				t.Errorf("%s quotes what stands in no file of this directory:\n%s", name, code)
			}
		case "text":
			shown = true
			if !quotes(printed, code) {
				t.Errorf("%s shows what the kit does not print:\n%s\nIt prints:\n%s", name, code, strings.Join(printed, "\n\n"))
			}
		case "sh":
		default:
			t.Errorf("%s has a block of %q: use go, text, or sh", name, language)
		}
	}
	if !shown {
		t.Errorf("%s does not show what the kit prints:\n%s", name, strings.Join(printed, "\n\n"))
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
