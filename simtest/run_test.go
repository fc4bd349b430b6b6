package simtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/simtest"
)

// child is what sets a test apart that another test runs in a process of its own.
const child = "SIMTEST_CHILD"

// TestRunInChildProcess fails on purpose. The tests below run it.
func TestRunInChildProcess(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("other tests run it")
	}
	simtest.Run(t, func() simtest.World {
		w := sitesWorld()
		w.Pairs = -1
		return w
	})
}

// runChild runs TestRunInChildProcess in a directory.
func runChild(t *testing.T, dir string, args ...string) (out string, failed bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"-test.run=^TestRunInChildProcess$"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), child+"=1")
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

func TestFailedPlanIsSavedAndTriedFirst(t *testing.T) {
	dir := t.TempDir()
	out, failed := runChild(t, dir)
	if !failed {
		t.Fatal("failed is false")
	}
	if want := "the plan is in testdata/simtest/TestRunInChildProcess/"; !strings.Contains(out, want) {
		t.Fatalf("out = %q, want it to contain %q", out, want)
	}
	files, err := filepath.Glob(filepath.Join(dir, "testdata/simtest/TestRunInChildProcess/*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Fatalf("len(files) = %d, want 2: %v", len(files), files)
	}
	const plan = "lose-request(sites create server/a-1#1)"
	var kept int
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if want := regexp.MustCompile(`^# bug end-state: server/a-\d is missing at the end; .*\n[^#]*#1\)\n$`); !want.MatchString(string(text)) {
			t.Fatalf("want a match of %s in:\n%s", want, string(text))
		}
		if filepath.Base(f) != "" {
			kept++
		}
	}
	if kept != 2 {
		t.Fatalf("kept = %v, want 2", kept)
	}
	if err := os.RemoveAll(filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	writePlan(t, dir, "mine", "# it was late\n"+plan+"\n")
	out, _ = runChild(t, dir)
	if want := "run again: -simtest.plan='" + plan + "'"; !strings.Contains(out, want) {
		t.Fatalf("it is tried before others with the same failure: out = %q, want it to contain %q", out, want)
	}
}

func writePlan(t *testing.T, dir, name, text string) {
	t.Helper()
	dir = filepath.Join(dir, "testdata/simtest/TestRunInChildProcess")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestInapplicablePlanReportsReason(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"1": "crash-after(places update site/a#1)",
		"2": "crash-after(sites update place/a#1)",
		"3": "crash-after(sites update site/a#7)",
		"4": "crash-after(sites create site/a#1)",
		"5": "lag(sites update site/a#1 of place)",
		"6": "gap(sites site/a#7 to 8)",
		"7": "restart(sites step#9)",
		"8": "explode(sites update site/a#1)",
		"9": "skip(step#1)",
	} {
		writePlan(t, dir, name, text)
	}
	out, _ := runChild(t, dir)
	const file = "testdata/simtest/TestRunInChildProcess/"
	for _, want := range []string{
		file + `1: the plan does not apply anymore: crash-after(places update site/a#1): there is no system "places", only sites. Correct the file, or delete it`,
		file + `2: the plan does not apply anymore: crash-after(sites update place/a#1): sites never does this, or anything to the kind "place". Correct`,
		file + "3: the plan does not apply anymore: crash-after(sites update site/a#7): sites does it only 1 times\n",
		file + "4: the plan does not apply anymore: crash-after(sites create site/a#1): sites never does this, but update site/a\n",
		file + `5: the plan does not apply anymore: lag(sites update site/a#1 of place): sites has no cache of the kind "place". Correct`,
		file + "6: the plan does not apply anymore: gap(sites site/a#7 to 8): site/a has only 2 changes\n",
		file + "7: the plan does not apply anymore: restart(sites step#9): the user takes only 1 steps. Correct",
		file + "8: simtest: parse plan: explode: there is no such fault",
	} {
		if !strings.Contains(out, want) {
			t.Fatalf("out = %q, want it to contain %q", out, want)
		}
	}
	if strings.Contains(out, file+"9") {
		t.Fatalf("out = %q, want it not to contain %q", out, file+"9")
	}
	out, failed := runChild(t, dir, "-simtest.plan=crash-after(sites create site/a#1)")
	if !failed {
		t.Fatal("failed is false")
	}
	if want := "simtest: the plan does not apply: crash-after(sites create site/a#1): sites never does this, but update site/a"; !strings.Contains(out, want) {
		t.Fatalf("out = %q, want it to contain %q", out, want)
	}
}

func TestLongRunReportsProgress(t *testing.T) {
	out, _ := runChild(t, t.TempDir(), "-simtest.progress=1ns", "-simtest.budget=50ms")
	if want := regexp.MustCompile(`simtest: TestRunInChildProcess: \d+ of \d+ plans, \d+ per second, \d+s left\n`); !want.MatchString(out) {
		t.Fatalf("want a match of %s in:\n%s", want, out)
	}
	if want := regexp.MustCompile(`simtest: TestRunInChildProcess: \d+ plans, \d+ per second, random plans for another 0s\n`); !want.MatchString(out) {
		t.Fatalf("want a match of %s in:\n%s", want, out)
	}
	out, _ = runChild(t, t.TempDir())
	if strings.Contains(out, "per second") {
		t.Fatalf("out = %q, want it not to contain %q", out, "per second")
	}
	out, failed := runChild(t, t.TempDir(), "-simtest.budget=soon")
	if !failed {
		t.Fatal("failed is false")
	}
	if want := `simtest: -simtest.budget: time: invalid duration "soon"`; !strings.Contains(out, want) {
		t.Fatalf("out = %q, want it to contain %q", out, want)
	}
}

func TestReportPageShowsFailures(t *testing.T) {
	dir := t.TempDir()
	out, _ := runChild(t, dir, "-simtest.html=pages")
	if want := "simtest: the page is pages/TestRunInChildProcess.html"; !strings.Contains(out, want) {
		t.Fatalf("out = %q, want it to contain %q", out, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pages/TestRunInChildProcess.html"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), "server/a-0 is missing at the end; without faults it exists: {&#34;Site&#34;:&#34;a&#34;}"; !strings.Contains(got, want) {
		t.Fatalf("string(text) = %q, want it to contain %q", got, want)
	}
	if got, want := string(text), "-simtest.plan='crash-after(sites update site/a#1)'"; !strings.Contains(got, want) {
		t.Fatalf("string(text) = %q, want it to contain %q", got, want)
	}
	if got, want := string(text), `<li class="row missing">`; !strings.Contains(got, want) {
		t.Fatalf("string(text) = %q, want it to contain %q", got, want)
	}
	if got := string(text); !strings.Contains(got, `<path class="bad"`) {
		t.Fatalf("string(text) = %q, want it to contain %q", got, `<path class="bad"`)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	out, _ = runChild(t, dir, "-simtest.html=file")
	if want := "simtest: write the page of -simtest.html: "; !strings.Contains(out, want) {
		t.Fatalf("out = %q, want it to contain %q", out, want)
	}
}
