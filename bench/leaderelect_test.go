package bench_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The durations of both electors, where a scenario does not say otherwise: client-go's usual ones, and setpoint's defaults.
var usual = periods{15 * time.Second, 10 * time.Second, 2 * time.Second}

// The tolerances of times: the jitter before a takeover of setpoint, and some messages.
const (
	takeover = 50 * time.Millisecond
	messages = 10 * halfway
)

// measure is the result of a run of a scenario.
type measure struct {
	bad     bool          // the run violated the rule; a scenario that measures a time has no bad runs
	d       time.Duration // how long the violation lasted, or the measured time
	refused error         // the elector does not accept the configuration
}

// wrong returns the measure of a state that must not occur.
func wrong(d time.Duration) measure { return measure{bad: d > 0, d: d} }

// scenario is a fault, its measurement, and the known result.
type scenario struct {
	title string
	play  func(w *leaseWorld) measure

	// known is how many runs of client-go 0.37.2 are known to be bad: "none", "some", "most"; "" for a scenario that measures a time. It is
	// logged, and not asserted: an improved version is welcome.
	known string

	// bounds are the longest times allowed to setpoint, polling and watching. Zero for a scenario that must have no bad run.
	bounds [2]time.Duration

	refused bool // setpoint does not accept the configuration
}

// fullVariable makes each scenario run often enough for the table. It also makes the model of package leaderelect try everything.
const fullVariable = "LEADERELECT_MODEL"

// runs returns how often a scenario is run.
func (s scenario) runs() int {
	switch {
	case testing.Short():
		return 4
	case os.Getenv(fullVariable) != "full":
		return 20
	case s.isTimed():
		return 300
	default:
		return 60
	}
}

// isTimed reports whether s measures a time.
func (s scenario) isTimed() bool { return s.known == "" }

var (
	polled = usual.retry*12/10 + messages
	passed = usual.lease + takeover + messages
)

var scenarios = []scenario{
	{title: "two lead: cut off, no release", known: "none", play: func(w *leaseWorld) measure {
		return cutOff(w, candidate{periods: usual}, 0)
	}},
	{title: "two lead: cut off, ReleaseOnCancel", known: "most", play: func(w *leaseWorld) measure {
		return cutOff(w, candidate{periods: usual, release: true}, 0)
	}},
	{title: "two lead: cut off, ReleaseOnCancel, calls end after 5 s", known: "some", play: func(w *leaseWorld) measure {
		return cutOff(w, candidate{periods: usual, release: true}, 5*time.Second)
	}},
	{title: "two lead: cut off, ReleaseOnCancel, calls never end, first minute", known: "most", play: func(w *leaseWorld) measure {
		return cutOff(w, candidate{periods: usual, release: true}, -1)
	}},
	{title: "two lead: a renewal takes 9.9 s, then cut off", known: "most", play: func(w *leaseWorld) measure {
		return slowReply(w, 9900*time.Millisecond)
	}},
	{title: "two lead: a renewal takes 7.9 s, then cut off", known: "some", play: func(w *leaseWorld) measure {
		return slowReply(w, 7900*time.Millisecond)
	}},
	{title: "two lead: a renewal takes 4.9 s, then cut off", known: "some", play: func(w *leaseWorld) measure {
		return slowReply(w, 4900*time.Millisecond)
	}},
	{title: "two lead: canceled, ReleaseOnCancel, 8 s of drain", known: "most", play: drain},
	{title: "two lead: cut off at 5 / 4.5 / 1 s", known: "some", play: func(w *leaseWorld) measure {
		return cutOff(w, candidate{periods: periods{5 * time.Second, 4500 * time.Millisecond, time.Second}}, 0)
	}},
	{title: "two lead: cut off at 6 / 5.9 / 4.9 s", known: "some", refused: true, play: func(w *leaseWorld) measure {
		return cutOff(w, candidate{periods: periods{6 * time.Second, 5900 * time.Millisecond, 4900 * time.Millisecond}}, 0)
	}},
	{title: "two lead: cut off at 6 / 5.9 / 2.9 s", known: "some", play: func(w *leaseWorld) measure {
		return cutOff(w, candidate{periods: periods{6 * time.Second, 5900 * time.Millisecond, 2900 * time.Millisecond}}, 0)
	}},
	{title: "two lead: two of one identity, first minute", known: "most", play: sameIdentity},
	{title: "a lease is clobbered: cut off, ReleaseOnCancel, heals when the next leads", known: "most",
		play: func(w *leaseWorld) measure {
			healLate(w)
			return measure{bad: w.clobbered > 0}
		}},
	{title: "two others lead: the same", known: "some", play: func(w *leaseWorld) measure {
		healLate(w)
		return wrong(w.together("a"))
	}},
	{title: "a lease is clobbered: a release arrives after 30 s", known: "none", play: lateRelease},
	{title: "leads on after a foreign write, p50 / max", bounds: [2]time.Duration{usual.retry + messages, messages},
		play: usurped},
	{title: "crash to the next leader, p50 / max", bounds: [2]time.Duration{passed + polled, passed}, play: func(w *leaseWorld) measure {
		crashed, _, next := crash(w)
		return measure{d: next.Sub(crashed)}
	}},
	{title: "last renewal before it to the next leader, p50 / max", bounds: [2]time.Duration{passed + polled, passed},
		play: func(w *leaseWorld) measure {
			_, renewed, next := crash(w)
			return measure{d: next.Sub(renewed)}
		}},
	{title: "cancel, ReleaseOnCancel, to the next leader, p50 / max", bounds: [2]time.Duration{polled, messages}, play: handOver},
}

// lead makes a lead and another follow, for a random time. The error says why c is refused.
func lead(w *leaseWorld, c candidate, others ...string) error {
	c.name = "a"
	if err := w.start(c); err != nil {
		return err
	}
	pass(5 * halfway)
	for _, name := range others {
		pass(w.upTo(2 * c.retry))
		c.name = name
		if err := w.start(c); err != nil {
			return err
		}
	}
	pass(20*time.Second + w.upTo(2*c.retry))
	if !w.worksNow("a") {
		return errors.New("the first does not lead")
	}
	return nil
}

// follow waits for a leader other than a since begin, and fails the test if there is none.
func follow(w *leaseWorld, begin time.Time) time.Time {
	next, found := w.successor("a", begin)
	if !found {
		w.t.Error("nobody follows")
	}
	return next
}

// cutOff loses all messages of the leader, and only those.
func cutOff(w *leaseWorld, c candidate, timeout time.Duration) measure {
	if err := lead(w, c, "b"); err != nil {
		return measure{refused: err}
	}
	begin := time.Now()
	w.cut("a", timeout)
	follow(w, begin)
	pass(time.Minute - time.Since(begin))
	return wrong(w.together())
}

// slowReply delivers a renewal at once and its reply after d. The leader's driver waits for it. No other message of the leader arrives any
// more. A reply after more than 8 s comes too late for setpoint: the previous renewal was sent 2 s earlier, and its RenewDeadline is 10 s.
func slowReply(w *leaseWorld, d time.Duration) measure {
	require.NoError(w.t, lead(w, candidate{periods: usual, request: max(5*time.Second, d+halfway)}, "b"))
	begin := time.Now()
	w.mu.Lock()
	w.slow["a"] = d
	w.mu.Unlock()
	follow(w, begin)
	pass(time.Minute - time.Since(begin))
	return wrong(w.together())
}

// drain makes the work continue for a while after the caller has canceled. client-go asks its callers to wait for the work
// before they cancel; here, as in many programs, one context ends both.
func drain(w *leaseWorld) measure {
	require.NoError(w.t, lead(w, candidate{periods: usual, release: true, drain: 8 * time.Second}, "b"))
	begin := time.Now()
	w.cancel("a")
	follow(w, begin)
	pass(time.Minute - time.Since(begin))
	return wrong(w.together())
}

func sameIdentity(w *leaseWorld) measure {
	begin := time.Now()
	require.NoError(w.t, lead(w, candidate{periods: usual, identity: "pod-0"}, "b"))
	pass(time.Minute - time.Since(begin))
	return wrong(w.together())
}

// healLate cuts the leader off and heals its connection soon after another has begun to lead. Then the pending messages arrive. setpoint has
// a long RequestTimeout, so that calls still wait.
func healLate(w *leaseWorld) {
	require.NoError(w.t, lead(w, candidate{periods: usual, release: true, request: 9900 * time.Millisecond}, "b", "c"))
	begin := time.Now()
	w.cut("a", 0)
	follow(w, begin)
	pass(w.upTo(time.Second))
	w.heal("a")
	pass(30 * time.Second)
}

// lateRelease delays all writes of a leader that is canceled until another leads.
func lateRelease(w *leaseWorld) measure {
	require.NoError(w.t, lead(w, candidate{periods: usual, release: true}, "b"))
	begin := time.Now()
	w.mu.Lock()
	w.late["a"] = 30 * time.Second
	w.mu.Unlock()
	w.cancel("a")
	follow(w, begin)
	pass(time.Minute - time.Since(begin))
	return measure{bad: w.clobbered > 0}
}

func usurped(w *leaseWorld) measure {
	require.NoError(w.t, lead(w, candidate{periods: usual}, "b"))
	begin := time.Now()
	w.usurp()
	pass(30 * time.Second)
	return measure{d: w.spansSince(time.Time{})[0].end.Sub(begin)}
}

// crash ends the process of the leader. It returns that time, the time of its last renewal before, and the time when another
// began to lead.
func crash(w *leaseWorld) (crashed, renewed, next time.Time) {
	require.NoError(w.t, lead(w, candidate{periods: usual}, "b"))
	w.crash("a")
	w.mu.Lock()
	crashed, renewed = time.Now(), w.written
	w.mu.Unlock()
	return crashed, renewed, follow(w, crashed)
}

// handOver cancels a leader whose work returns at once.
func handOver(w *leaseWorld) measure {
	require.NoError(w.t, lead(w, candidate{periods: usual, release: true}, "b"))
	begin := time.Now()
	w.cancel("a")
	return measure{d: follow(w, begin).Sub(begin)}
}

// Two replicas, unless a scenario says otherwise, in simulated time; a call takes 2 ms. Two lead as long as the work of
// both runs: from the call of OnStartedLeading until it returns, which it does as soon as its context ends. So a replica
// that stops late is one whose elector has told it late. Each scenario is played from many random moments.
//
// LEADERELECT_MODEL=full plays each more often and prints, with -v, the table of README.md: bad runs, and for how long
// those were bad, median and maximum. Runs of client-go differ a little, because its jitter cannot be seeded.
func TestTheSameFaultsOnBothElectors(t *testing.T) {
	cells := make([][]cell, len(scenarios))
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range scenarios {
			cells[i] = make([]cell, len(electors))
			for j, e := range electors {
				t.Run(s.title+", "+e.name, func(t *testing.T) {
					t.Parallel()
					cells[i][j] = s.playAll(t, e)
					if j > 0 {
						s.require(t, cells[i][j], j-1)
					} else if s.known != "" {
						t.Logf("expectation of client-go 0.37.2, not asserted: bad runs: %s; found: %s (%s)",
							s.known, cells[i][j].share(), cells[i][j])
					}
				})
			}
		}
	})
	if os.Getenv(fullVariable) != "full" || t.Failed() {
		return
	}
	var columns, rows []string
	for _, e := range electors {
		columns = append(columns, e.name)
	}
	for _, s := range scenarios {
		rows = append(rows, s.title)
	}
	printTable("at 15 / 10 / 2 s", columns, rows, cells)
}

// cell is the result of all runs of a scenario.
type cell struct {
	runs    int
	timed   bool
	bad     int
	refused int
	refusal error           // the last
	times   []time.Duration // sorted; without those of zero
}

// playAll runs s from many random moments, each in its own bubble.
func (s scenario) playAll(t *testing.T, e elector) cell {
	c := cell{timed: s.isTimed()}
	for seed := range s.runs() {
		synctest.Test(t, func(t *testing.T) { c.add(s.play(newLeaseWorld(t, e, uint64(seed)))) })
	}
	slices.Sort(c.times)
	return c
}

// add counts a run.
func (c *cell) add(m measure) {
	c.runs++
	if m.bad {
		c.bad++
	}
	if m.refused != nil {
		c.refused, c.refusal = c.refused+1, m.refused
	}
	if m.d > 0 {
		c.times = append(c.times, m.d)
	}
}

// require checks the promises of setpoint; kind 0 polls and 1 watches.
func (s scenario) require(t *testing.T, c cell, kind int) {
	if s.refused {
		require.Equal(t, c.runs, c.refused)
		require.ErrorContains(t, c.refusal, "must be at most half of RenewDeadline")
		return
	}
	require.NoError(t, c.refusal)
	assert.Zero(t, c.bad, "bad runs, of %d: %v", c.runs, c.times)
	if c.timed {
		require.Len(t, c.times, c.runs)
		assert.LessOrEqual(t, c.times[c.runs-1], s.bounds[kind])
	}
}

func (c cell) share() string {
	switch c.bad {
	case 0:
		return "none"
	default:
		if c.bad*10 < c.runs*9 {
			return "some"
		}
		return "most"
	}
}

// String returns the cell of the table: bad runs, and the median and the longest of the times.
func (c cell) String() string {
	if c.refused == c.runs {
		return "refused"
	}
	var parts []string
	if !c.timed {
		parts = append(parts, fmt.Sprintf("%d of %d", c.bad, c.runs))
	}
	if n := len(c.times); n > 0 {
		median, longest := c.times[n/2], c.times[n-1]
		if longest < time.Second {
			parts = append(parts, fmt.Sprintf("%d / %d ms", median.Milliseconds(), longest.Milliseconds()))
		} else {
			parts = append(parts, fmt.Sprintf("%.2f / %.2f s", median.Seconds(), longest.Seconds()))
		}
	}
	return strings.Join(parts, ": ")
}

// printTable prints a table in Markdown.
func printTable(what string, columns, rows []string, cells [][]cell) {
	fmt.Printf("\n| %s | %s |\n|---%s|\n", what, strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	for i, title := range rows {
		fmt.Printf("| %s |", title)
		for _, c := range cells[i] {
			fmt.Printf(" %s |", c)
		}
		fmt.Println()
	}
}
