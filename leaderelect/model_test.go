package leaderelect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// The model has fewer, longer retry periods than the defaults, so that a lease has fewer calls and all faults on all
// of them can be tried.
const modelRetry = 4 * time.Second

func TestNoSingleFaultMakesTwoLeaders(t *testing.T) {
	t.Parallel()
	for f := range endOfFaults {
		t.Run(fmt.Sprintf("%s at any call", f), func(t *testing.T) {
			t.Parallel()
			const calls = 40
			for n := 1; n <= calls; n++ {
				for _, d := range durations(f) {
					synctest.Test(t, func(t *testing.T) { singleFault(t, n, f, d) })
				}
			}
		})
	}
}

// durations returns what to try for a fault that has one.
func durations(f fault) []time.Duration {
	switch f {
	case slowReply, slowRequest, lateRequest:
		return []time.Duration{3 * time.Second, 4900 * time.Millisecond, 9900 * time.Millisecond, 16 * time.Second}
	case partition:
		return []time.Duration{renew, 40 * time.Second}
	default:
		return []time.Duration{0}
	}
}

// singleFault has two candidates lead and follow, with one fault on the n-th call, and the leader leave later on.
func singleFault(t *testing.T, n int, f fault, d time.Duration) {
	w := newWorld(t)
	read := map[string]bool{}
	w.plan = func(c call) (fault, time.Duration) {
		if c.n != n {
			if w.entry != nil && c.op == "get" {
				read[c.party] = true
			}
			return none, 0
		}
		if (f == deleteRecord || f == rollBack) && len(read) < 2 {
			return none, 0 // one who has never seen the record cannot know that it is gone
		}
		return f, d
	}
	for _, name := range []string{"a", "b"} {
		p := w.join(t, name, func(cfg *leaderelect.Config) { cfg.RetryPeriod = modelRetry })
		p.behave = work{linger: stepDown, drain: 3 * time.Second}.run
		p.start()
	}
	after(50 * time.Second)
	for _, p := range w.parties {
		if p.IsLeader() {
			_ = p.stop()
			break
		}
	}
	after(20 * time.Second)
	w.heal()
	w.requireLeader(t)
	w.finish(t)
}

func TestNoScheduleOfFaultsMakesTwoLeaders(t *testing.T) {
	t.Parallel()
	const schedules, lanes = 2000, 4
	for lane := range lanes {
		t.Run(fmt.Sprintf("lane %d", lane), func(t *testing.T) {
			t.Parallel()
			for seed := lane; seed < schedules && !t.Failed(); seed += lanes {
				synctest.Test(t, func(t *testing.T) {
					t.Cleanup(func() {
						if t.Failed() {
							t.Logf("seed %d", seed)
						}
					})
					w := schedule(t, uint64(seed))
					w.requireLeader(t)
					w.finish(t)
				})
			}
		})
	}
}

func TestOneLeaderWhileClocksKeepToTheSkewAndTwoIfNot(t *testing.T) {
	for slow, want := range map[float64]bool{0.99: true, 1: true, 1.0099: true, 1.05: false} {
		violations := 0
		for offset := time.Duration(0); offset < 2*retry; offset += retry / 10 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
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
				w.finish(t)
			})
		}
		assert.Equal(t, want, violations == 0, "clock %v, %d times two leaders", slow, violations)
	}
}

// schedule runs two or three candidates through random faults until the network is healed and all run. The clocks of some
// are slow: all their durations take so many times as long.
func schedule(t *testing.T, seed uint64) *world {
	chance := &chance{random: rand.New(rand.NewPCG(seed, 17))}
	w := newWorld(t)
	odds := chance.float() / 3
	w.plan = func(call) (fault, time.Duration) {
		if chance.float() > odds {
			return none, 0
		}
		return fault(chance.upTo(int(deleteRecord))), chance.duration(20 * time.Second)
	}
	for i := range 2 + chance.upTo(2) {
		name, clock := string(rune('a'+i)), 1.0
		if chance.upTo(2) == 0 {
			clock = 1.0099
		}
		scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * clock) }
		p := w.join(t, name, func(cfg *leaderelect.Config) {
			cfg.Store = link{network: w.network, party: name, slow: clock}
			cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = scale(lease), scale(renew), scale(modelRetry)
			cfg.ReleaseOnCancel = chance.upTo(4) > 0
			cfg.DrainTimeout = scale(time.Duration(chance.upTo(2)) * 3 * time.Second)
			cfg.Rand = chance.float
		})
		p.behave = func(ctx context.Context, l *leaderelect.Leadership) error {
			return chance.work(scale(stepDown)).run(ctx, l)
		}
		p.start()
	}
	leaving := make(map[*party]bool)
	for range 3 {
		after(chance.duration(25 * time.Second))
		p := w.parties[chance.upTo(len(w.parties))]
		if chance.upTo(2) == 0 {
			w.cut(p.name, chance.duration(40*time.Second))
			continue
		}
		p.cancel(context.Canceled)
		leaving[p] = true
	}
	after(chance.duration(25 * time.Second))
	w.heal()
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

// requireLeader requires that there is one leader soon after the last fault.
func (w *world) requireLeader(t testing.TB) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; after(time.Second) {
		leaders := 0
		for _, p := range w.parties {
			if p.IsLeader() {
				leaders++
			}
		}
		if leaders == 1 {
			return
		}
		require.Zero(t, leaders)
	}
	t.Fatal("there is no leader")
}

// work is what a leader does.
type work struct {
	byItself time.Duration // when it returns although it could go on; 0 is never
	err      error         // what it returns then
	panics   bool          // instead
	drain    time.Duration // how long it goes on after the caller has cancelled, if it may
	linger   time.Duration // how long it goes on after it must stop
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

// chance is where all that is random in a schedule comes from.
type chance struct {
	mu sync.Mutex
	// mu guards the following.
	random *rand.Rand
}

func (c *chance) float() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}

func (c *chance) upTo(n int) int { return int(c.float() * float64(n)) }

func (c *chance) duration(limit time.Duration) time.Duration {
	return time.Duration(c.float() * float64(limit))
}

// work returns some work that stops in time.
func (c *chance) work(stepDown time.Duration) work {
	b := work{drain: c.duration(6 * time.Second), linger: stepDown}
	if c.upTo(3) == 0 {
		b.byItself = 1 + c.duration(20*time.Second)
		b.panics = c.upTo(3) == 0
		if b.panics || c.upTo(2) == 0 {
			b.err = errExpected
		}
	}
	return b
}
