package manager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
)

// rounds returns how often a test repeats: n, or what the variable of the environment says.
func rounds(t *testing.T, variable string, n int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	return n
}

// TestStartAndStopOrderHoldsInRandomRuns adds and removes parts of a manager, makes them fail, late and slow, takes the
// leadership away and gives it back, and stops it, at random times. Each part checks when it starts and when its context
// ends that the order is kept (see managed). When things have come to rest, what ought to run runs, and nothing else does.
func TestStartAndStopOrderHoldsInRandomRuns(t *testing.T) {
	times := 30
	if raceEnabled {
		times = 25
	}
	for seed := range rounds(t, "MANAGER_SCHEDULES", times) {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			managerModel(t, uint64(seed))
		})
	}
}

func managerModel(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &managedWorld{t: t, rand: rand.New(rand.NewPCG(seed, 2)), release: make(chan struct{})}
	w.leases = &leases{Store: memlease.New(), updates: w.checkUpdate}
	elect := election(w.leases)
	elect.OnStepDownOverrun = func(*leaderelect.Leadership) {} // and not the end of the process
	cfg := manager.Config{Election: elect, BeforeRelease: w.hook, Logger: quiet}
	if w.stops = r.IntN(3) == 0; !w.stops {
		cfg.Restart = wait.Backoff{Duration: time.Duration(1+r.IntN(5000)) * time.Millisecond}
	}
	m := must(manager.New(cfg))
	for range r.IntN(6) {
		addSome(t, w, m, r)
	}
	for _, p := range w.parts { // whatever the order in which they were added
		p.needs = nil
		for _, s := range w.parts {
			if s.stage < p.stage {
				p.needs = append(p.needs, s)
			}
		}
	}

	running := looptest.Start(t, m.Run)
	steps := r.IntN(80)
	for range steps {
		switch r.IntN(10) {
		case 0, 1:
			addSome(t, w, m, r)
		case 2:
			removeSome(t, w, m, r)
		case 3:
			synctest.Wait()
			w.failSome()
			synctest.Wait()
		case 4:
			w.setCut(r.IntN(2) == 0)
		case 5:
			if r.IntN(3) == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = m.Elector().Resign(ctx, 0)
				cancel()
			}
		case 6:
			time.Sleep(time.Duration(r.IntN(100)) * time.Second)
		case 7, 8:
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		case 9:
			synctest.Wait()
			m.CheckInvariants(t)
		}
	}
	if r.IntN(2) == 0 {
		w.setCut(false)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		checkRest(t, w, m, running)
	}
	w.locked(func() { w.stopping = true })
	began := time.Now()
	err := running.Stop()
	w.locked(func() { w.ended = true })
	synctest.Wait()
	m.CheckInvariants(t)
	assert.LessOrEqual(t, time.Since(began), time.Minute+4*3*time.Second)
	assert.Equal(t, len(w.stuck) > 0, errors.Is(err, manager.ErrStopTimeout), err)
	for _, name := range w.stuck {
		assert.ErrorContains(t, err, fmt.Sprintf("%q: it has not returned", name))
	}
	left := strings.Count(fmt.Sprint(err), "it has not returned")
	assert.True(t, len(w.stuck) <= left && left <= len(w.stuck)+w.slow, err)
	close(w.release)
	time.Sleep(time.Minute)
	synctest.Wait()
	m.CheckInvariants(t)
	assert.Equal(t, "ended", m.Stats().State)
	for _, p := range w.parts {
		assert.Zero(t, p.runs, "%s still runs", p.name)
	}
	for _, name := range w.expected {
		assert.ErrorContains(t, err, name)
	}
	if len(w.expected) == 0 && !w.late && len(w.stuck) == 0 {
		assert.NoError(t, err)
	}
	assertNoGoroutines(t)
}

// addSome adds a part, or one whose name is taken.
func addSome(t *testing.T, w *managedWorld, m *manager.Manager, r *rand.Rand) {
	synctest.Wait() // for parts that end, or fail
	var taken *managed
	var stopping bool
	w.locked(func() {
		w.sweepLocked()
		if stopping = w.stopping; len(w.parts) > 0 && r.IntN(4) == 0 {
			taken = w.parts[r.IntN(len(w.parts))]
		}
	})
	if taken != nil && taken.listed {
		if err := m.Add(taken.part()); !stopping {
			assert.ErrorIs(t, err, manager.ErrExists)
		} else {
			assert.Error(t, err)
		}
		return
	}
	p, fresh := w.newPart(allStages[r.IntN(len(allStages))], r.IntN(2) == 0)
	if err := m.Add(p.part()); stopping {
		assert.ErrorIs(t, err, manager.ErrStopped)
		w.locked(func() {
			for _, p := range append(fresh, p) {
				p.removed = true
			}
		})
	} else {
		assert.NoError(t, err)
	}
}

// removeSome removes a part, and waits for its end or not.
func removeSome(t *testing.T, w *managedWorld, m *manager.Manager, r *rand.Rand) {
	synctest.Wait()
	var p *managed
	var lastErrs []error
	var own []*managed // informers that only p needs
	w.locked(func() {
		w.sweepLocked()
		if listed := slices.DeleteFunc(slices.Clone(w.parts), func(p *managed) bool { return !p.listed }); len(listed) > 0 {
			p = listed[r.IntN(len(listed))]
			lastErrs = w.dropLocked(p)
			for _, s := range p.informers {
				if n := s.neededByLocked(); !s.listed && (n == 0 || n == 1 && p.runs > 0) {
					own = append(own, s)
				}
			}
		}
	})
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(30_000))*time.Millisecond)
	defer cancel()
	err := m.Remove(ctx, p.name)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ctx.Err() != nil || w.stopping: // it may still run, or its error belongs to Run
	case errors.Is(err, manager.ErrSyncTimeout): // it was about to end because of that
	case len(lastErrs) > 0 && err != nil:
		assert.True(t, slices.ContainsFunc(lastErrs, func(f error) bool { return errors.Is(err, f) }), err)
	default:
		assert.NoError(t, err)
	}
	if ctx.Err() == nil {
		assert.True(t, p.runs == 0 || p.neededLocked(), "%s runs after it was removed", p.name)
		for _, s := range own {
			assert.True(t, s.runs == 0 || s.neededLocked(), "%s runs, but nothing needs it", s.name)
		}
	}
}

// checkRest checks what runs when nothing has happened for a long time.
func checkRest(t *testing.T, w *managedWorld, m *manager.Manager, running *looptest.Running) {
	m.CheckInvariants(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Equal(t, w.stopping, running.Ended())
	w.sweepLocked()
	stats := m.Stats()
	if w.stopping {
		assert.Equal(t, "ended", stats.State)
		return
	}
	elected := stats.Parts[len(stats.Parts)-1]
	assert.Equal(t, "election", elected.Kind)
	assert.Equal(t, "leading", stats.State)
	assert.NoError(t, m.Ready())
	assert.Len(t, stats.Parts, len(w.parts)+1)
	for i, p := range w.parts {
		assert.Equal(t, 1, p.runs, "%s runs", p.name)
		assert.Equal(t, p.name, stats.Parts[i].Name)
		assert.Equal(t, "running", stats.Parts[i].State)
		assert.LessOrEqual(t, stats.Parts[i].Restarts, p.starts-1)
	}
}
