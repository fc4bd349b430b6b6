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

// mutants are mistakes of the kit, each in a file below internal: a fault that does not do what it says, or does what no real system does. The test finds each.
var mutants = []struct{ name, file, was, becomes, test string }{
	{
		"crash-after does not apply the write", "sim/backend.go",
		"	case fault.CrashBefore:", "	case fault.CrashBefore, fault.CrashAfter:", "TestEachFault",
	},
	{
		"lose-reply does not apply the write", "sim/backend.go",
		"	case fault.LoseRequest:", "	case fault.LoseRequest, fault.LoseReply:", "TestEachFault",
	},
	{
		"nobody writes in a conflict", "sim/backend.go",
		"if f.Do == fault.Conflict {", "if false {", "TestEachFault",
	},
	{
		"a watch loses an event", "sim/backend.go",
		"if c.Kind == kind && q.Concern(&c.Record) {", "if c.Kind == kind && at%3 != 0 && q.Concern(&c.Record) {", "TestSimulatedStoresKeepTheContract",
	},
	{
		"a list forgets deletions", "database/database.go",
		"			delete(there, c.Record.Key)", "", "TestSimulatedStoresKeepTheContract",
	},
	{
		"a gap that nothing ends has no new list", "view/view.go",
		"	v.frozen, v.expire, v.gap = false, v.gap, false", "	v.frozen, v.expire, v.gap = false, false, false", "TestGapMergesChangesOfObject",
	},
	{
		"a lag over a step of the user is not fair again", "sim/doubt.go",
		"			v.Calm()\n", "			_ = v\n", "TestStepRestartsCountOfLag",
	},
	{
		"writes of a trusted system are doubtful", "sim/doubt.go",
		"	if p.Program.Trusted {\n		return\n", "	if false {\n		return\n", "TestTrustedSystemIsNotDoubted",
	},
	{
		"a doubt without faults is reported for each fault", "search/search.go",
		"if !fair.Doubts(p.Sort()) {", "if true {", "TestDoubtOfRunWithoutFaultsIsReportedOnce",
	},
	{
		"a plan travels to before the beginning", "sim/process.go",
		"min(informer.Version(s.travel), r.DB.Version())", "informer.Version(s.travel)", "TestTravelEndsAtTheBeginning",
	},
	{
		"the horizon does not begin again with a fault", "sim/run.go",
		"r.hits[i], r.quiet = true, time.Now()", "r.hits[i] = true", "TestConsequencesOfFaultAreAwaited",
	},
	{
		"the horizon does not begin again when a call arrives", "sim/leader.go",
		"		r.Touch()\n", "", "TestConsequencesOfFaultAreAwaited",
	},
	{
		"in run mode, a reconcile does not wait for a poll", "live/life.go",
		"return did || l.awaitList()", "return did", "TestModesAgreeAboutPolledSources",
	},
	{
		"in run mode, a reconcile in flight is not awaited", "sim/quiet.go",
		"if next = end; r.works() {", "if next = end; false {", "TestReconcileInFlightIsAwaited",
	},
	{
		"a list of a cache that lags shows the present", "sim/backend.go",
		"p.Run.DB.List(v.Lists(kind), kind, q)", "p.Run.DB.List(p.Run.DB.Version()+v.Lists(kind)*0, kind, q)", "TestEachFault",
	},
	{
		"a zombie shares the term", "sim/process.go",
		"term: s.terms}", "term: 1}", "TestLeaseFencesHungProcess",
	},
	{
		"terms are not compared", "database/database.go",
		"if err := f.Check(db.terms[f.Lease]); err != nil {", "if err := f.Check(0); err != nil {", "TestLeaseFencesHungProcess",
	},
	{
		"a dead process writes", "sim/calls.go",
		"	if p.dead.Load() {\n		runtime.Goexit()", "	if false {\n		runtime.Goexit()", "TestDeadProcessDoesNothing",
	},
	{
		"down comes back at once", "sim/run.go",
		"		p.Program.down = true", "", "TestEachFault",
	},
	{
		"travel begins in the present", "sim/process.go",
		`		p.freeze("", at)`, "", "TestEachFault",
	},
	{
		"no controller begins last", "sim/process.go",
		`return p.cold != "" && p.watches(l, p.cold)`, "return false && p.watches(l, p.cold)", "TestMapLostOnRestartIsFound",
	},
	{
		"a controller that begins last is left behind when time passes", "sim/calls.go",
		"r.Turn() || r.warm()", "r.Turn()", "TestColdStartTakesNoTime",
	},
	{
		"a part in the background does not wait for the caches", "step/step.go",
		"if stageOf(part.Background) == manager.Outer {", "if true {", "TestBackgroundPartStartsWithSyncedCaches",
	},
	{
		"a gap has no new list", "view/view.go",
		"v.frozen, v.expire, v.gap = false, true, false", "v.frozen, v.expire, v.gap = false, false, false", "TestGapMergesChangesOfObject",
	},
	{
		"a cache that lags hears everything", "view/view.go",
		"	if !v.frozen {\n		v.frozen, v.at", "	if v.frozen {\n		v.frozen, v.at", "TestEachFault",
	},
	{
		"a former leader notices at once", "sim/leader.go",
		"!all && time.Now().Before(p.until)", "false", "TestLeaderContinuesUntilItNoticesLostLease",
	},
	{
		"an effect never arrives", "sim/leader.go",
		"			err = c.call()", "", "TestFormerLeadersCallMayArriveAfterCleanup",
	},
	{
		"a leader that leads again has its former term", "sim/leader.go",
		"	s.terms++\n", "", "TestLeaderLeadsAgainWithNextTerm",
	},
	{
		"the call of the former term does not arrive", "sim/calls.go",
		"		r.late = append(r.late, h.late)\n", "", "TestLeaderLeadsAgainWithNextTerm",
	},
	{
		"a leader that leads again has forgotten its queues", "step/step.go",
		"		disconnect, err := loop.Connect(l.p.Context)\n		if err != nil {\n			l.p.Run", "		disconnect, err := func() { _ = loop }, error(nil)\n		if err != nil {\n			l.p.Run",
		"TestLeaderLeadsAgainWithNextTerm",
	},
	{
		"slow takes no time", "sim/calls.go",
		"slowness = time.Minute + 7*time.Second", "slowness = time.Nanosecond", "TestEachFault",
	},
	{
		"a reconcile is suspected for the stale caches of earlier ones", "sim/doubt.go",
		"	p.reading.behind = p.reading.behind[:0]\n", "", "TestDoubtsOfACreation",
	},
	{
		"a read excuses all later reconciles", "sim/doubt.go",
		"	p.reading.live = p.reading.live[:0]\n", "", "TestDoubtsOfACreation",
	},
	{
		"the last write of any system counts as that of the same", "sim/doubt.go",
		"staleKind{kind, seen, now, seen < own}", "staleKind{kind, seen, now, seen <= own || true}", "TestNoDoubtAfterWriteOfAnotherSystem",
	},
	{
		"a precondition removes no doubt", "sim/doubt.go",
		"|| guarded(have, decide) {", "|| false && guarded(have, decide) {", "TestDoubtsOfADeletion",
	},
	{
		"a lag is fair for any time", "view/view.go",
		"d > fairTime {", "d > fairTime && false {", "TestAlarmNeedingALongLagIsAdvisory",
	},
	{
		"writes before the last step count as churn", "sim/doubt.go",
		"r.reconciles, r.commits = 0, 0", "r.reconciles = 0", "TestHotLoopAfterWritesIsNoChurn",
	},
	{
		"every later process begins in the past", "sim/process.go",
		"		s.travel = 0\n", "", "TestTravelAffectsOneProcess",
	},
	{
		"in run mode, a process that hangs keeps its lease", "live/life.go",
		"	if !was {\n		l.driver.leases.Delete", "	if !was && !hangs {\n		l.driver.leases.Delete",
		"TestEachFaultInRunMode",
	},
	{
		"in run mode, a former leader hears at once that it is one", "live/leases.go",
		"told := l.of.untold(); told != nil {", "told := l.of.untold(); told != nil && false {",
		"TestLeaderContinuesUntilItNoticesLostLease",
	},
}

func TestEachMutantIsCaught(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			name := filepath.Join("internal", filepath.FromSlash(m.file))
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(source), m.was), "%s has %q once", m.file, m.was)
			if !*mutantsFlag {
				return
			}
			dir := t.TempDir()
			mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
			file, err := filepath.Abs(name)
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
