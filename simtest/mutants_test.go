package simtest_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutantsFlag is for the long form of the test below: go test ./simtest -run Mutant -mutants
var mutantsFlag = flag.Bool("mutants", false, "build the kit with each planted mistake, and run the test that has to find it")

// mutants are mistakes of the kit: a fault that does not do what it says, or does what no real system does. The test finds each.
var mutants = []struct{ name, file, was, becomes, test string }{
	{
		"crash-after does not apply the write", "env.go",
		"	case CrashBefore:", "	case CrashBefore, CrashAfter:", "TestEachFaultDoesWhatItSays",
	},
	{
		"lose-reply does not apply the write", "env.go",
		"	case LoseRequest:", "	case LoseRequest, LoseReply:", "TestEachFaultDoesWhatItSays",
	},
	{
		"nobody writes in a conflict", "env.go",
		"if f.Do == Conflict {", "if false {", "TestEachFaultDoesWhatItSays",
	},
	{
		"a watch loses an event", "env.go",
		"if c.kind == kind && q.Concern(&c.record) {", "if c.kind == kind && at%3 != 0 && q.Concern(&c.record) {", "TestTheStoresOfASimulationAreStores",
	},
	{
		"a list forgets deletions", "database.go",
		"			delete(records, c.record.Key)", "", "TestTheStoresOfASimulationAreStores",
	},
	{
		"a list of a cache that lags shows the present", "env.go",
		"p.run.db.list(v.lists(kind), kind, q)", "p.run.db.list(p.run.db.version()+v.lists(kind)*0, kind, q)", "TestEachFaultDoesWhatItSays",
	},
	{
		"a zombie shares the term", "process.go",
		"uint64(s.started)", "1", "TestALeaseFencesTheProcessThatHung",
	},
	{
		"terms are not compared", "database.go",
		"if err := f.Check(db.terms[f.Lease]); err != nil {", "if err := f.Check(0); err != nil {", "TestALeaseFencesTheProcessThatHung",
	},
	{
		"a dead process writes", "env.go",
		"	if p.dead.Load() {\n		runtime.Goexit()", "	if false {\n		runtime.Goexit()", "TestADeadProcessDoesNothing",
	},
	{
		"down comes back at once", "drive.go",
		"		p.system.down = true", "", "TestEachFaultDoesWhatItSays",
	},
	{
		"travel begins in the present", "process.go",
		`		p.freeze("", at)`, "", "TestEachFaultDoesWhatItSays",
	},
	{
		"a gap has no new list", "view.go",
		"v.frozen, v.expire, v.gap = false, true, false", "v.frozen, v.expire, v.gap = false, false, false", "TestAGapMergesTheChangesOfAnObject",
	},
	{
		"a cache that lags hears everything", "view.go",
		"	if !v.frozen {\n		v.frozen, v.at", "	if v.frozen {\n		v.frozen, v.at", "TestEachFaultDoesWhatItSays",
	},
	{
		"a former leader notices at once", "leader.go",
		"!all && time.Now().Before(p.until)", "false", "TestALeaderThatLosesItsLeaseGoesOnUntilItNotices",
	},
	{
		"an effect never arrives", "leader.go",
		"			err = c.call()", "", "TestACallOfAFormerLeaderCanArriveAfterTheCleanup",
	},
	{
		"slow takes no time", "drive.go",
		"slowness      = time.Minute + 7*time.Second", "slowness      = time.Nanosecond", "TestEachFaultDoesWhatItSays",
	},
	{
		"in run mode, a process that hangs keeps its lease", "live.go",
		"	if !was {\n		p.run.leases.Delete(p.system.Lease)", "	if !was && !hangs {\n		p.run.leases.Delete(p.system.Lease)",
		"TestEachFaultDoesWhatItSaysInRunMode",
	},
	{
		"in run mode, a former leader hears at once that it is one", "live.go",
		"			deposed := l.p.life.deposed\n", "			deposed := l.p.life.deposed && false\n",
		"TestALeaderThatLosesItsLeaseGoesOnUntilItNotices",
	},
}

func TestEachMutantIsCaught(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(source), m.was), "%s has %q once", m.file, m.was)
			if !*mutantsFlag {
				return
			}
			dir := t.TempDir()
			mutant, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
			file, err := filepath.Abs(m.file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(mutant, []byte(strings.Replace(string(source), m.was, m.becomes, 1)), 0o600))
			text, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutant}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(overlay, text, 0o600))
			out, err := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=60s", "-ldflags=-s -w", "-overlay="+overlay, "-run=^"+m.test+"$", ".").CombinedOutput()
			require.Error(t, err, "%s does not see it", m.test)
			require.NotContains(t, string(out), "[build failed]")
			require.Contains(t, string(out), "--- FAIL: "+m.test)
		})
	}
}
