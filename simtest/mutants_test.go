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

// mutants are mistakes of the kit, each in a file of this package: a fault that does not do what it says, or does what no real system does. The test finds each.
var mutants = []struct{ name, file, was, becomes, test string }{
	{
		"crash-after does not apply the write", "backend.go",
		"	case faultCrashBefore:", "	case faultCrashBefore, faultCrashAfter:", "TestEachFault",
	},
	{
		"lose-reply does not apply the write", "backend.go",
		"	case faultLoseRequest:", "	case faultLoseRequest, faultLoseReply:", "TestEachFault",
	},
	{
		"nobody writes in a conflict", "backend.go",
		"if f.Do == faultConflict {", "if false {", "TestEachFault",
	},
	{
		"a watch loses an event", "backend.go",
		"if c.kind == kind && q.Concern(&c.record) {", "if c.kind == kind && at%3 != 0 && q.Concern(&c.record) {", "TestSimulatedStoresKeepTheContract",
	},
	{
		"a list forgets deletions", "database.go",
		"			delete(there, c.record.Key)", "", "TestSimulatedStoresKeepTheContract",
	},
	{
		"a gap that nothing ends has no new list", "input.go",
		"	in.frozen, in.expire, in.gap = false, in.gap, false", "	in.frozen, in.expire, in.gap = false, false, false", "TestGapMergesChangesOfObject",
	},
	{
		"a lag over a step of the user is not fair again", "stale.go",
		"			in.calm()\n", "			_ = in\n", "TestStepRestartsCountOfLag",
	},
	{
		"writes of a trusted system are doubtful", "stale.go",
		"	if p.program.Trusted {\n		return\n", "	if false {\n		return\n", "TestTrustedSystemIsNotDoubted",
	},
	{
		"a doubt without faults is reported for each fault", "search.go",
		"if fair.advises(p.sort()) || ", "if ", "TestDoubtOfRunWithoutFaultsIsReportedOnce",
	},
	{
		"a creation is doubted whatever its name", "search.go",
		` || p.creates != "" && fair.db.hasHad(p.creates) {`, " {", "TestCreationIsDoubtedOnlyUnderNewName",
	},
	{
		"a plan travels to before the beginning", "process.go",
		"min(informer.Version(s.travel), r.db.version())", "informer.Version(s.travel)", "TestTravelEndsAtTheBeginning",
	},
	{
		"the horizon does not begin again with a fault", "simulation.go",
		"r.hits[i], r.quiet = true, time.Now()", "r.hits[i] = true", "TestConsequencesOfFaultAreAwaited",
	},
	{
		"the horizon does not begin again when a call arrives", "terms.go",
		"		r.touch()\n", "", "TestConsequencesOfFaultAreAwaited",
	},
	{
		"in run mode, a reconcile does not wait for a poll", "rundriver.go",
		"return did || d.awaitList()", "return did", "TestModesAgreeAboutPolledSources",
	},
	{
		"in run mode, a reconcile in flight is not awaited", "settle.go",
		"if next = end; inFlight {", "if next = end; false {", "TestReconcileInFlightIsAwaited",
	},
	{
		"a list of a cache that lags shows the present", "backend.go",
		"p.run.db.list(in.beginList(kind), kind, q)", "p.run.db.list(p.run.db.version()+in.beginList(kind)*0, kind, q)", "TestEachFault",
	},
	{
		"a zombie shares the term", "process.go",
		"term: s.terms}", "term: 1}", "TestLeaseFencesHungProcess",
	},
	{
		"a takeover does not raise the fence", "stepdriver.go",
		"	db.acceptFences([]backend.Fence{{Lease: s.p.program.Lease, Term: s.p.term}})\n",
		"	_ = backend.Fence{}\n", "TestTakeoverFencesFormerLeader",
	},
	{
		"terms are not compared", "database.go",
		"if err := f.Check(db.terms[f.Lease]); err != nil {", "if err := f.Check(0); err != nil {", "TestLeaseFencesHungProcess",
	},
	{
		"a dead process writes", "calls.go",
		"	if p.dead.Load() {\n		runtime.Goexit()", "	if false {\n		runtime.Goexit()", "TestDeadProcessDoesNothing",
	},
	{
		"down comes back at once", "simulation.go",
		"		p.program.down = true", "", "TestEachFault",
	},
	{
		"travel begins in the present", "process.go",
		`		p.freeze("", at)`, "", "TestEachFault",
	},
	{
		"no controller begins last", "process.go",
		`return p.cold != "" && p.watches(l, p.cold)`, "return false && p.watches(l, p.cold)", "TestMapLostOnRestartIsFound",
	},
	{
		"a controller that begins last is left behind when time passes", "calls.go",
		"r.turn() || r.warm()", "r.turn()", "TestColdStartTakesNoTime",
	},
	{
		"a part in the background does not wait for the caches", "stepdriver.go",
		"if stageOf(part) == manager.Outer {", "if true {", "TestBackgroundPartStartsWithSyncedCaches",
	},
	{
		"a gap has no new list", "input.go",
		"in.frozen, in.expire, in.gap = false, true, false", "in.frozen, in.expire, in.gap = false, false, false", "TestGapMergesChangesOfObject",
	},
	{
		"a cache that lags receives everything", "input.go",
		"	if !in.frozen {\n		in.frozen, in.at", "	if in.frozen {\n		in.frozen, in.at", "TestEachFault",
	},
	{
		"a former leader notices at once", "terms.go",
		"!all && time.Now().Before(p.until)", "false", "TestLeaderContinuesUntilItNoticesLostLease",
	},
	{
		"an effect never arrives", "terms.go",
		"			err = c.call()", "", "TestFormerLeadersCallMayArriveAfterCleanup",
	},
	{
		"a leader that leads again has its former term", "terms.go",
		"	s.terms++\n", "", "TestLeaderLeadsAgainWithNextTerm",
	},
	{
		"the call of the former term does not arrive", "calls.go",
		"		r.late = append(r.late, h.late)\n", "", "TestLeaderLeadsAgainWithNextTerm",
	},
	{
		"a leader that leads again has forgotten its queues", "stepdriver.go",
		"		disconnect, err := loop.Connect(s.p.ctx)\n		if err != nil {\n			s.p.run", "		disconnect, err := func() { _ = loop }, error(nil)\n		if err != nil {\n			s.p.run",
		"TestLeaderLeadsAgainWithNextTerm",
	},
	{
		"slow takes no time", "calls.go",
		"slowTime  = time.Minute + 7*time.Second", "slowTime = time.Nanosecond", "TestEachFault",
	},
	{
		"a reconcile is suspected for the stale caches of earlier ones", "stale.go",
		"	p.reads.behind = p.reads.behind[:0]\n", "", "TestDoubtsOfACreation",
	},
	{
		"a read excuses all later reconciles", "stale.go",
		"	p.reads.fromStore = p.reads.fromStore[:0]\n", "", "TestDoubtsOfACreation",
	},
	{
		"the last write of any system counts as that of the same", "stale.go",
		"staleKind{kind, seen, now, seen < own}", "staleKind{kind, seen, now, seen <= own || true}", "TestNoDoubtAfterWriteOfAnotherSystem",
	},
	{
		"a precondition removes no doubt", "stale.go",
		"|| guarded(have, decide) {", "|| false && guarded(have, decide) {", "TestDoubtsOfADeletion",
	},
	{
		"a lag is fair for any time", "input.go",
		"d > fairTime {", "d > fairTime && false {", "TestAlarmNeedingALongLagIsAdvisory",
	},
	{
		"writes before the last step count as churn", "stale.go",
		"r.reconciles, r.commits = 0, 0", "r.reconciles = 0", "TestHotLoopDiffersFromChurnByWrites",
	},
	{
		"every later process begins in the past", "process.go",
		"		s.travel = 0\n", "", "TestTravelAffectsOneProcess",
	},
	{
		"in run mode, a process that hangs keeps its lease", "rundriver.go",
		"	d.driver.expire(d.p.program.Lease, d.p.name)\n", "	if !hangs {\n		d.driver.expire(d.p.program.Lease, d.p.name)\n	}\n",
		"TestEachFault",
	},
	{
		"in run mode, a former leader notices at once that it is one", "rundriver.go",
		"noticed := l.d.lossNoticed(); noticed != nil {", "noticed := l.d.lossNoticed(); noticed != nil && false {",
		"TestLeaderContinuesUntilItNoticesLostLease",
	},
	{
		"an owner works before its caches have caught up", "slots.go",
		" || s.tenures[i].preparing != nil {", " {", "TestSlotsMove",
	},
	{
		"a takeover of a slot does not raise the fence", "backend.go",
		"	if next == nil {\n		db.acceptFences(fences)\n	}\n", "", "TestTakeoverFencesFormerOwner",
	},
	{
		"a slot is handed over while a reconcile is in flight", "slots.go",
		"case t.leaving && t.working == 0:", "case t.leaving:", "TestSlotsMove",
	},
	{
		"the keys of an acquired slot are not added", "slots.go",
		"l.Acquired(t.number)", "_ = l", "TestNextOwnerReconcilesAllKeysOfSlot",
	},
	{
		"a cache keeps the objects of a slot that has left", "slots.go",
		"l.Revoked(t.number)", "_ = l", "TestCacheFollowsSlots",
	},
	{
		"two owners of a slot have the same term", "slots.go",
		"	to.term++\n", "	to.term = 1\n", "TestSlotsMove",
	},
	{
		"a process notices at once that it has lost its slots", "slots.go",
		"s.lost, s.p.until = true, time.Now().Add(noticeTime)", "s.lost, s.p.until = true, time.Now()", "TestSlotsMove",
	},
	{
		"a process that has lost its slots keeps them", "slots.go",
		"!p.zombie && !p.share.lost", "!p.zombie", "TestSlotsMove",
	},
	{
		"the caches of the replica to which a slot moves do not lag", "slots.go",
		"	to.freeze(kind, f.run.db.version())\n", "	_ = kind\n", "TestSlotsMove",
	},
	{
		"slots do not come back", "settle.go",
		"			did = f.rebalance() || did\n", "			_ = f\n", "TestSlotsMove",
	},
	{
		"slots come back before the next step", "settle.go",
		"if all || f.moved < r.begun {", "if true {", "TestSlotsMove",
	},
	{
		"another slot than the youngest comes back", "slots.go",
		"slices.Backward(most.share.tenures)", "slices.All(most.share.tenures)", "TestSlotsMove",
	},
	{
		"a process that has just started takes over", "slots.go",
		"return f.count(p) > 0 }) {", "return false }) {", "TestSlotsMove",
	},
	{
		"a source that polls is not asked for what a takeover needs", "input.go",
		"	in.asks = 3\n", "	in.asks = 0\n", "TestFleetMayPoll",
	},
	{
		"a cache that has no slot has no kind", "input.go",
		"			return of.Kind()\n", "			_ = of\n", "TestFleetSurvivesFaults",
	},
	{
		"the end of a slot does not end its context", "slots.go",
		"		t.end(leaderelect.ErrLeaseTaken)\n", "", "TestSlotsMove",
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
			mutant, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
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
