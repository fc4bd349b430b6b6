package leaderelect_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// The model has fewer, longer retry periods than the defaults. So a lease has fewer calls, and all faults can be tried on each
// of them. After each run, and at each action of a leader, it checks:
//
//   - Terms grow by one with every leadership, and each belongs to one elector.
//   - No two electors work at the same time, whatever clocks and messages do, unless a process was suspended. Even then, no two
//     act, because each asks before it acts.
//   - A fenced register accepts terms only in order.
//   - The work begins after the claim is known, and returns before the release.
//   - Callbacks come in pairs and in order.
//   - One leader works soon after the last fault.
//   - An outage in which no call returns loses no lease, whenever it begins, if it is shorter than three quarters of
//     RenewDeadline.
const modelRetry = 4 * time.Second

// modelVariable makes the model try everything: every pair of faults, and 10,000 random schedules. It takes two minutes.
const modelVariable = "LEADERELECT_MODEL"

func effort(few, all int) int { return looptest.Effort(modelVariable, few, all) }

// trouble is a fault of a call.
type trouble struct {
	n int // which call, from 1, of all callers
	fault
	d time.Duration
}

// survived is the longest outage that loses no lease: three quarters of RenewDeadline.
const survived = renew*3/4 - 10*time.Millisecond

// durations returns the durations to try for a fault that has one.
func durations(f fault) []time.Duration {
	switch f {
	case slowReply, slowRequest, lateRequest:
		return []time.Duration{3 * time.Second, 4900 * time.Millisecond, 9900 * time.Millisecond, 16 * time.Second}
	case pauseBefore, pauseAfter:
		return []time.Duration{9 * time.Second, 20 * time.Second}
	case outage:
		return []time.Duration{survived, 40 * time.Second}
	case partition, cutAfter:
		return []time.Duration{renew, 40 * time.Second}
	case scribble:
		picks := make([]time.Duration, len(scribbles))
		for i := range picks {
			picks[i] = time.Duration(i) * time.Millisecond
		}
		return picks
	default:
		return []time.Duration{0}
	}
}

func TestNoSingleFaultMakesTwoLeaders(t *testing.T) {
	t.Parallel()
	var all []trouble
	for f := range endOfFaults {
		for n := 1; n <= effort(14, 40); n++ { // the first two leases have 14 calls
			for _, d := range durations(f) {
				all = append(all, trouble{n, f, d})
			}
		}
	}
	looptest.Lanes(t, len(all), func(t *testing.T, i int) { story(t, i, 50*time.Second, all[i]) })
}

func TestNoTwoFaultsMakeTwoLeaders(t *testing.T) {
	t.Parallel()
	const calls = 14 // of the first two leases
	var all []trouble
	for f := none + 1; f < endOfFaults; f++ {
		for n := 1; n <= calls; n++ {
			for _, d := range durations(f)[:1] {
				all = append(all, trouble{n, f, d})
			}
		}
	}
	pairs := len(all) * len(all)
	tries := effort(250, pairs)
	const stride = 7919 // a prime: some of each
	looptest.Lanes(t, tries, func(t *testing.T, i int) {
		pair := i * (pairs / tries)
		if tries < pairs {
			pair = i * stride % pairs
		}
		one, two := all[pair/len(all)], all[pair%len(all)]
		if one.n < two.n || one.n == two.n && one.fault < two.fault { // each pair once
			story(t, pair, 30*time.Second, one, two)
		}
	})
}

// story runs two candidates, with faults on some calls. The leader leaves later. In every second story they watch.
func story(t *testing.T, number int, length time.Duration, troubles ...trouble) {
	w := newWorld(t)
	w.acts = true
	w.mayForget = func() bool { return w.mayForgetLocked(2) }
	w.plan = func(c call) (fault, time.Duration) {
		for _, x := range troubles {
			if c.n == x.n {
				return x.fault, x.d
			}
		}
		return none, 0
	}
	short := len(troubles) == 1 && troubles[0].fault == outage && troubles[0].d == survived
	for _, name := range []string{"a", "b"} {
		p := w.join(t, name, func(cfg *leaderelect.Config) {
			cfg.RetryPeriod = modelRetry
			if short {
				cfg.RetryPeriod = retry
			}
			if number%2 == 0 {
				watched(cfg)
			}
		})
		p.behave = work{linger: stepDown, drain: 3 * time.Second}.run
		p.start()
	}
	after(length)
	for _, p := range w.parties {
		if p.IsLeader() {
			_ = p.stop()
			break
		}
	}
	after(20 * time.Second)
	for _, p := range w.parties {
		if short {
			require.Zero(t, p.Stats().Lost, "an outage of %s at call %d costs no lease", survived, troubles[0].n)
		}
	}
	w.heal()
	w.requireLeader(t)
	w.finish(t)
}

func TestNoScheduleOfFaultsMakesTwoLeaders(t *testing.T) {
	t.Parallel()
	looptest.Lanes(t, effort(80, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), absent)
		w.requireLeader(t)
		w.finish(t)
	})
}

// slew is how much chrony changes the speed of a clock at its default maxslewrate. chrony is how much two such clocks can
// differ.
const (
	slew   = 0.083334
	chrony = (1 + slew) / (1 - slew)
)

func TestClockSkewBoundDecidesBetweenOneAndTwoLeaders(t *testing.T) {
	t.Parallel()
	for slow, want := range map[float64]bool{0.99: true, 1: true, chrony: true, 1.1999: true, 1.25: false} {
		violations := 0
		for offset := time.Duration(0); offset < 2*retry; offset += retry / 5 {
			inWorld(t, func(t *testing.T, w *world) {
				scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * slow) }
				a := w.join(t, "a", func(cfg *leaderelect.Config) {
					cfg.Store = link{network: w.network, party: "a", slow: slow}
					cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = scale(lease), scale(renew), scale(retry)
				})
				a.behave = work{linger: scale(stepDown)}.run
				a.start()
				after(latency + offset)
				w.join(t, "b", nil).start()
				after(20 * time.Second)
				w.cut("a", time.Hour)
				after(time.Minute)
				require.Equal(t, 2, w.led())
				w.mu.Lock()
				violations += len(w.violations)
				w.violations = nil
				w.mu.Unlock()
			})
		}
		assert.Equal(t, want, violations == 0, "clock %v, %d times two leaders", slow, violations)
	}
}

func TestNoRestoredBackupMakesTwoLeadersOfOneTerm(t *testing.T) {
	t.Parallel()
	looptest.Lanes(t, effort(50, 10_000), func(t *testing.T, seed int) {
		w := restores(t, uint64(seed))
		w.requireLeader(t)
		w.finish(t)
	})
}

// restores makes the store go back repeatedly to a random earlier record, sometimes with a raised term, while candidates come and go. Writes often succeed
// without a reply. A restored claim without a reply is the difficult case.
func restores(t *testing.T, seed uint64) *world {
	chance := looptest.NewChance(seed, 18)
	w := newWorld(t)
	w.acts = true
	candidates := 2 + chance.UpTo(2)
	w.mayForget = func() bool { return w.mayForgetLocked(candidates) }
	w.plan = func(c call) (fault, time.Duration) {
		if c.op == "get" || chance.UpTo(3) > 0 {
			return none, 0
		}
		return []fault{lostReply, cutAfter}[chance.UpTo(2)], 10*time.Second + chance.Duration(20*time.Second)
	}
	for i := range candidates {
		p := w.join(t, string(rune('a'+i)), func(cfg *leaderelect.Config) {
			cfg.RetryPeriod = modelRetry
			cfg.ReleaseOnCancel = chance.UpTo(4) > 0
			cfg.Rand = chance.Float
		})
		p.behave = work{linger: stepDown - 1}.run
		p.start()
	}
	for range 4 {
		after(chance.Duration(40 * time.Second))
		w.meddle([]fault{rollBack, raise}[chance.UpTo(2)], chance.Duration(20*time.Second))
		for range 2 {
			after(chance.Duration(8 * time.Second))
			p := w.parties[chance.UpTo(candidates)]
			_ = p.stop()
			p.start()
		}
	}
	w.heal()
	return w
}

// drift is how much clocks differ in speed, and the MaxClockRateSkew of the electors.
type drift struct{ slowest, fastest, skew float64 }

var drifts = []drift{{1, 1, 0}, {1, 1.0099, 0.01}, {1 - slew, 1 + slew, 0.2}, {0.7, 1.3, 0.86}}

// schedule runs two or three candidates through random faults, until the network is healed and all run. Clocks differ in speed:
// all durations of a party are scaled.
func schedule(t *testing.T, seed uint64, s sessionTrouble) *world {
	chance := looptest.NewChance(seed, 17)
	w := newWorld(t)
	w.acts = true
	odds := chance.Float() / 3
	clocks := drifts[chance.UpTo(len(drifts))]
	candidates := 2 + chance.UpTo(2)
	w.mayForget = func() bool { return w.mayForgetLocked(candidates) }
	w.plan = func(call) (fault, time.Duration) {
		if chance.Float() > odds {
			return none, 0
		}
		return fault(chance.UpTo(int(endOfFaults))), chance.Duration(20 * time.Second)
	}
	for i := range candidates {
		name, clock := string(rune('a'+i)), clocks.slowest
		if chance.UpTo(2) == 0 {
			clock = clocks.fastest
		}
		scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * clock) }
		p := w.join(t, name, func(cfg *leaderelect.Config) {
			cfg.Store = link{network: w.network, party: name, slow: clock}
			cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = scale(lease), scale(renew), scale(modelRetry)
			if clocks.skew > 0.5 {
				cfg.RenewDeadline, cfg.RetryPeriod = scale(renew/2), scale(modelRetry/2)
			}
			cfg.MaxClockRateSkew = clocks.skew
			cfg.ReleaseOnCancel = chance.UpTo(4) > 0
			cfg.DrainTimeout = scale(time.Duration(chance.UpTo(2)) * 3 * time.Second)
			cfg.Rand = chance.Float
			if chance.UpTo(4) == 0 {
				breakCode(chance, cfg)
			}
			if chance.UpTo(2) == 0 {
				watched(cfg)
			}
			if s != absent {
				present(w, name)(cfg)
				cfg.Fenced = s != unfenced && (s != mixed || chance.UpTo(2) == 0)
			}
		})
		left := scale(time.Duration(float64(lease)/(1+clocks.skew))) - scale(renew)
		if clocks.skew > 0.5 {
			left += scale(renew / 2)
		}
		p.behave = func(ctx context.Context, l *leaderelect.Leadership) error {
			return randomWork(chance, left-1).run(ctx, l)
		}
		if chance.UpTo(4) == 0 {
			p.hang = func() time.Duration { return time.Duration(chance.UpTo(2)) * chance.Duration(3*time.Minute) }
		}
		p.start()
	}
	w.troubleSessions(chance, s)
	leaving := make(map[*party]bool)
	for range 3 {
		after(chance.Duration(25 * time.Second))
		p := w.parties[chance.UpTo(len(w.parties))]
		switch chance.UpTo(5) {
		case 0, 1:
			w.cut(p.name, chance.Duration(40*time.Second))
		case 2:
			if !leaving[p] { // and it comes back at once
				_ = p.stop()
				p.start()
			}
		case 3:
			ctx, cancel := context.WithTimeout(t.Context(), chance.Duration(10*time.Second))
			_ = p.HandOver(ctx, w.parties[chance.UpTo(len(w.parties))].name)
			cancel()
		default:
			p.cancel(context.Canceled)
			leaving[p] = true
		}
	}
	after(chance.Duration(25 * time.Second))
	w.heal()
	w.sessions.heal()
	w.mu.Lock()
	for _, p := range w.parties {
		p.behave = nil
	}
	w.mu.Unlock()
	for _, p := range w.parties {
		if leaving[p] {
			<-p.done
			p.start()
		}
	}
	return w
}

// requireLeader requires that there is one leader soon after the last fault, and that it works.
func (w *world) requireLeader(t testing.TB) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; after(time.Second) {
		leaders := 0
		for _, p := range w.parties {
			if p.IsLeader() {
				leaders++
			}
		}
		if leaders == 1 && w.working() {
			return
		}
		require.True(t, leaders < 2 || w.early, "the old leader learns of an early takeover at its next renewal")
	}
	t.Fatal("no leader is working")
}

// working reports whether the work of the leader runs.
func (w *world) working() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.parties, func(p *party) bool { return p.open != nil && p.IsLeader() })
}

// work is the work of a leader.
type work struct {
	byItself time.Duration // when it returns although it could continue; 0 is never
	err      error         // its result then
	panics   bool          // instead
	drain    time.Duration // how long it continues after the caller has canceled, if it may
	linger   time.Duration // how long it continues after it must stop
}

func (b work) run(ctx context.Context, l *leaderelect.Leadership) error {
	var byItself <-chan time.Time
	if b.byItself > 0 {
		byItself = time.After(b.byItself)
	}
	select {
	case <-byItself:
		if b.panics {
			panic(b.err)
		}
		return b.err
	case <-ctx.Done():
	}
	if wait.Sleep(l.Context(), b.drain) != nil {
		time.Sleep(b.linger)
	}
	return context.Cause(ctx)
}

// randomWork returns some work that stops in time.
func randomWork(c *looptest.Chance, stepDown time.Duration) work {
	b := work{drain: c.Duration(6 * time.Second), linger: stepDown}
	if c.UpTo(3) == 0 {
		b.byItself = 1 + c.Duration(20*time.Second)
		b.panics = c.UpTo(3) == 0
		if b.panics || c.UpTo(2) == 0 {
			b.err = errExpected
		}
	}
	return b
}

// breakCode makes user code panic sometimes: the hook and Rand.
func breakCode(c *looptest.Chance, cfg *leaderelect.Config) {
	crash := func() {
		if c.UpTo(3) == 0 {
			panic(errExpected)
		}
	}
	cfg.Rand = func() float64 { crash(); return c.Float() }
	cfg.Hooks.Request = func(string, time.Duration, error) { crash() }
}

// losses runs outages of the given number and length. Each begins at another moment between two renewals. losses returns in how
// many of them the leader loses its lease. Calls that begin during an outage have the fault.
func losses(t *testing.T, f fault, timeout, length time.Duration, outages int) (lost int) {
	for i := range outages {
		inWorld(t, func(t *testing.T, w *world) {
			begin := 2*retry + time.Duration(i)*retry/time.Duration(outages)
			w.plan = func(c call) (fault, time.Duration) {
				if at := w.at(c.now); at >= begin && at < begin+length {
					return f, 0
				}
				return none, 0
			}
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.RequestTimeout = timeout })
			a.start()
			after(time.Minute)
			if w.led() != 1 {
				lost++
			}
		})
	}
	return lost
}

func TestLeaderSurvivesOutageOfThreeQuartersOfRenewDeadline(t *testing.T) {
	t.Parallel()
	outages := effort(6, 100)
	for _, f := range []fault{stall, hang, stallLate, hangLate, lostRequest, lostReply} {
		for _, length := range []time.Duration{6 * time.Second, 7490 * time.Millisecond, renew} {
			lost := losses(t, f, 0, length, outages)
			if outages == 100 {
				t.Logf("%s, %s: lost in %d of 100 outages, with half of RenewDeadline for a call in %d", f, length, lost,
					losses(t, f, renew/2, length, outages))
			}
			if length < renew {
				assert.Zero(t, lost, "%s for %s", f, length)
			} else {
				assert.Equal(t, outages, lost, "%s for RenewDeadline: no leadership survives that", f)
			}
		}
	}
}
