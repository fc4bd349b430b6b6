package simtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.NoError(t, err)
	cmd := exec.Command(self, append([]string{"-test.run=^TestRunInChildProcess$"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), child+"=1")
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

func TestFailedPlanIsSavedAndTriedFirst(t *testing.T) {
	dir := t.TempDir()
	out, failed := runChild(t, dir)
	require.True(t, failed)
	require.Contains(t, out, "the plan is in testdata/simtest/TestRunInChildProcess/")
	files, err := filepath.Glob(filepath.Join(dir, "testdata/simtest/TestRunInChildProcess/*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	const plan = "lose-request(sites create server/a-1#1)"
	var kept int
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Regexp(t, `^# bug end-state: server/a-\d is missing at the end; .*\n[^#]*#1\)\n$`, string(text))
		if filepath.Base(f) != "" {
			kept++
		}
	}
	require.Equal(t, 2, kept)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "testdata")))
	writePlan(t, dir, "mine", "# it was late\n"+plan+"\n")
	out, _ = runChild(t, dir)
	require.Contains(t, out, "run again: -simtest.plan='"+plan+"'", "it is tried before others with the same failure")
}

func writePlan(t *testing.T, dir, name, text string) {
	t.Helper()
	dir = filepath.Join(dir, "testdata/simtest/TestRunInChildProcess")
	require.NoError(t, os.MkdirAll(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
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
		require.Contains(t, out, want)
	}
	require.NotContains(t, out, file+"9")
	out, failed := runChild(t, dir, "-simtest.plan=crash-after(sites create site/a#1)")
	require.True(t, failed)
	require.Contains(t, out, "simtest: the plan does not apply: crash-after(sites create site/a#1): sites never does this, but update site/a")
}

func TestLongRunReportsProgress(t *testing.T) {
	out, _ := runChild(t, t.TempDir(), "-simtest.progress=1ns", "-simtest.budget=50ms")
	require.Regexp(t, `simtest: TestRunInChildProcess: \d+ of \d+ plans, \d+ per second, \d+s left\n`, out)
	require.Regexp(t, `simtest: TestRunInChildProcess: \d+ plans, \d+ per second, random plans for another 0s\n`, out)
	out, _ = runChild(t, t.TempDir())
	require.NotContains(t, out, "per second")
	out, failed := runChild(t, t.TempDir(), "-simtest.budget=soon")
	require.True(t, failed)
	require.Contains(t, out, `simtest: -simtest.budget: time: invalid duration "soon"`)
}

func TestReportPageShowsFailures(t *testing.T) {
	dir := t.TempDir()
	out, _ := runChild(t, dir, "-simtest.html=pages")
	require.Contains(t, out, "simtest: the page is pages/TestRunInChildProcess.html")
	text, err := os.ReadFile(filepath.Join(dir, "pages/TestRunInChildProcess.html"))
	require.NoError(t, err)
	require.Contains(t, string(text), "server/a-0 is missing at the end; without faults it exists: {&#34;Site&#34;:&#34;a&#34;}")
	require.Contains(t, string(text), "-simtest.plan='crash-after(sites update site/a#1)'")
	require.Contains(t, string(text), `<li class="row missing">`)
	require.Contains(t, string(text), `<path class="bad"`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o666))
	out, _ = runChild(t, dir, "-simtest.html=file")
	require.Contains(t, out, "simtest: write the page of -simtest.html: ")
}
