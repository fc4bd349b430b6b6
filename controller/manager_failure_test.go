package controller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// doubling restarts after 1 s, 2 s, 4 s, ...
var doubling = controller.RestartWithBackoff(wait.Backoff{Duration: time.Second, Factor: 2, Cap: 8 * time.Second})

// failing is a part that fails in all the ways, one after the other, each time after it has run for a while.
func failing(events *log[time.Time], ran time.Duration) func(context.Context) error {
	var times atomic.Int64
	return func(ctx context.Context) error {
		events.add(time.Now())
		if wait.Sleep(ctx, ran) != nil {
			return nil
		}
		switch times.Add(1) % 4 {
		case 0:
			panic("oh")
		case 1:
			return errBoom
		case 2:
			runtime.Goexit()
		}
		return nil
	}
}

// seconds returns the times as seconds since the first.
func seconds(times []time.Time) (since []float64) {
	for _, at := range times {
		since = append(since, at.Sub(times[0]).Seconds())
	}
	return since
}

func TestAPartThatFailsIsStartedAgainAfterABackoff(t *testing.T) {
	for _, kind := range []controller.PartKind{controller.PartSource, controller.PartController} {
		bubble(t, string(kind), func(t *testing.T) {
			starts := &log[time.Time]{}
			s := newStage(t, controller.ManagerConfig{OnFailure: doubling})
			if kind == controller.PartSource {
				s.source.run = failing(starts, time.Second)
			} else {
				s.controller.run = failing(starts, time.Second)
			}
			r := start(t, s.manager.Run)
			time.Sleep(30*time.Second + 500*time.Millisecond)
			s.manager.CheckInvariants(t)
			assert.Equal(t, []float64{0, 2, 5, 10, 19, 28}, seconds(starts.take()), "1 s to run, and 1, 2, 4, 8, 8 s to wait")
			stats := s.manager.Stats().Parts
			part := stats[0]
			if kind == controller.PartController {
				part = stats[1]
			}
			assert.Equal(t, controller.PartBackingOff, part.State)
			assert.Equal(t, 1500*time.Millisecond, time.Since(part.Since))
			assert.Equal(t, 5, part.Restarts)
			require.ErrorContains(t, part.Err, "runtime.Goexit", "the sixth failure, as the second")
			assert.False(t, r.ended())
			require.NoError(t, r.stop(), "a failure that was mended is not returned")
			time.Sleep(time.Minute)
			assert.Empty(t, starts.take())
		})
	}
}

func TestAFailureAfterHealthIsAFirstOne(t *testing.T) {
	for _, test := range []struct {
		name   string
		cfg    controller.ManagerConfig
		ran    time.Duration
		inARow []int
	}{
		{"shorter than the default", controller.ManagerConfig{}, time.Minute - 1, []int{1, 2, 3}},
		{"as long as the default", controller.ManagerConfig{}, time.Minute, []int{1, 1, 1}},
		{"shorter than what is healthy", controller.ManagerConfig{HealthyAfter: time.Hour}, time.Hour - 1, []int{1, 2, 3}},
		{"as long as what is healthy", controller.ManagerConfig{HealthyAfter: time.Hour}, time.Hour, []int{1, 1, 1}},
	} {
		bubble(t, test.name, func(t *testing.T) {
			failures := &log[controller.PartFailure]{}
			test.cfg.OnFailure = func(f controller.PartFailure) controller.Reaction {
				failures.add(f)
				if failures.len() == 3 {
					return controller.StopAll()
				}
				return controller.RestartAfter(time.Second)
			}
			s := newStage(t, test.cfg)
			s.controller.run = func(context.Context) error { time.Sleep(test.ran); return errBoom }
			require.ErrorIs(t, s.manager.Run(t.Context()), errBoom)
			var inARow []int
			for _, f := range failures.take() {
				assert.Equal(t, test.ran, f.Ran)
				assert.Equal(t, controller.PartController, f.Kind)
				assert.Equal(t, "controller", f.Name)
				assert.ErrorIs(t, f.Err, errBoom)
				inARow = append(inARow, f.InARow)
			}
			assert.Equal(t, test.inARow, inARow)
		})
	}
}

func TestASourceThatHasNeverSyncedIsNotHealthyHoweverLongItHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inARow := &log[int]{}
		s := newStage(t, controller.ManagerConfig{OnFailure: func(f controller.PartFailure) controller.Reaction {
			inARow.add(f.InARow)
			return controller.RestartAfter(0)
		}})
		s.source.hold = true
		s.source.run = func(ctx context.Context) error { return wait.Sleep(ctx, 90*time.Second) }
		r := start(t, s.manager.Run)
		time.Sleep(5 * time.Minute)
		assert.Equal(t, []int{1, 2, 3}, inARow.take())
		require.NoError(t, r.stop())
	})
}

func TestRestartWithBackoffGivesUpAfterItsStepsAndForAnInformerThatHasEnded(t *testing.T) {
	policy := controller.RestartWithBackoff(wait.Backoff{Duration: time.Second, Steps: 3})
	for n, want := range []controller.Reaction{
		1: controller.RestartAfter(time.Second), 2: controller.RestartAfter(time.Second), 3: controller.StopAll(), 4: controller.StopAll(),
	} {
		if n > 0 {
			assert.Equal(t, want, policy(controller.PartFailure{InARow: n, Err: errBoom}))
		}
	}
	assert.Equal(t, controller.StopAll(), policy(controller.PartFailure{InARow: 1, Err: errors.Join(informer.ErrEnded)}))
	assert.Equal(t, controller.RestartAfter(time.Second), doubling(controller.PartFailure{InARow: 1, Err: errBoom}))
	assert.Equal(t, controller.RestartAfter(8*time.Second), doubling(controller.PartFailure{InARow: 1000, Err: errBoom}))
	assert.Equal(t, controller.StopAll(), controller.Reaction{}, "the zero value")
}

func TestAManagerMayGoOnWithoutAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		m, err := controller.NewManager(controller.ManagerConfig{
			OnFailure: func(controller.PartFailure) controller.Reaction { return controller.GoOnWithout() },
			Logger:    slog.New(slog.NewTextHandler(&logged, nil)),
			Election:  election(newLeases()),
		})
		require.NoError(t, err)
		events := &log[string]{}
		bad := newFakeSource("bad", events)
		bad.hold = true
		bad.run = func(context.Context) error { return errBoom }
		require.NoError(t, m.AddSource(bad))
		panics := newRunner("panics", events)
		panics.run = func(context.Context) error { panic(errBoom) }
		require.NoError(t, m.AddController(panics))
		require.NoError(t, m.AddController(newRunner("good", events)))
		r := start(t, m.Run)
		time.Sleep(time.Minute)
		m.CheckInvariants(t)
		assert.Len(t, m.Stats().Parts, 2, "the good one and the election")
		require.ErrorIs(t, m.RemoveController(t.Context(), "panics"), controller.ErrNoPart)
		require.NoError(t, m.AddController(newRunner("panics", events)), "the name is free")
		synctest.Wait()
		assert.Contains(t, logged.String(), `msg="part failed, and the manager goes on without it" kind=source name=bad error=boom inARow=1`)
		assert.Contains(t, logged.String(), "manager_failure_test.go", "the stack of the panic")
		require.NoError(t, r.stop())
		assert.Equal(t, []string{
			"bad starts", "bad stops", "panics starts", "panics stops", "good starts", "panics starts",
		}, sortedHead(events.take(), 6))
	})
}

// sortedHead returns the first n of events, where the good controller, which starts together with another, starts after that.
func sortedHead(events []string, n int) []string {
	const good = "good starts"
	i := slices.Index(events, good)
	events = slices.Delete(slices.Clone(events[:n]), i, i+1)
	return slices.Insert(events, n-2, good)
}

func TestASourceThatIsLateIsEndedAndStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := &log[controller.PartFailure]{}
		s := newStage(t, controller.ManagerConfig{SyncTimeout: time.Minute, OnFailure: func(f controller.PartFailure) controller.Reaction {
			failures.add(f)
			return controller.RestartAfter(time.Second)
		}})
		s.source.hold = true
		tries := 0
		s.source.run = func(ctx context.Context) error {
			if tries++; tries == 2 {
				close(s.source.synced)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		r := start(t, s.manager.Run)
		time.Sleep(time.Minute + 500*time.Millisecond)
		assert.Equal(t, []string{"source starts", "source stops"}, s.events.take())
		failed := failures.take()
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0].Err, controller.ErrSyncTimeout)
		assert.Equal(t, time.Minute, failed[0].Ran)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"source starts", "controller starts"}, s.events.take())
		require.NoError(t, r.stop())
	})
}

func TestASourceThatIsLateWhenItIsToldToEndIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, cancel := context.WithCancel(t.Context())
		cancel()
		source := newFakeSource("slow", &log[string]{})
		for range 50 { // both are true, and select takes either
			require.ErrorIs(t, controller.AwaitSync(told, make(chan struct{}), 0, source), controller.ErrSyncTimeout)
		}
		require.NoError(t, controller.AwaitSync(told, make(chan struct{}), 1, source))
		require.NoError(t, controller.AwaitSync(told, make(chan struct{}), -1, source))
	})
}

func TestASourceMayTakeAllTheTimeThatItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{SyncTimeout: -1})
		s.source.hold = true
		r := start(t, s.manager.Run)
		time.Sleep(1000 * time.Hour)
		close(s.source.synced)
		synctest.Wait()
		assert.Equal(t, started, s.events.take())
		require.NoError(t, r.stop())
	})
}

func TestEveryMemberOfAGroupThatDoesNotSyncIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := newSource()
		held.hold = make(chan struct{})
		alsoHeld := newSource()
		alsoHeld.hold = make(chan struct{})
		g := must(informer.NewGroup(informer.GroupConfig{}))
		for name, src := range map[string]*source{"apps": held, "sites": alsoHeld, "done": newSource()} {
			_, err := informer.For(g, src, keyOf, informer.Config{Name: name, Logger: quiet})
			require.NoError(t, err)
		}
		m, err := controller.NewManager(controller.ManagerConfig{Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, m.AddSource(g))
		other := newFakeSource("other", &log[string]{})
		other.hold = true
		require.NoError(t, m.AddSource(other))
		r := start(t, m.Run)
		time.Sleep(time.Minute)
		require.Error(t, m.Ready())
		assert.Regexp(t, `^controller: not ready: the manager is syncing
controller: not ready: source "informers" has not synced: (apps, sites|sites, apps)
controller: not ready: source "other" has not synced: other$`, m.Ready().Error())

		c, reports := newController(t, controller.Config[string]{WaitFor: []informer.Syncer{g, other}}, noop)
		runErr := c.Run(t.Context())
		require.ErrorIs(t, runErr, controller.ErrSyncTimeout, "a controller names them too")
		assert.Regexp(t, "(apps, sites|sites, apps), other", runErr.Error())
		assert.Empty(t, reports.take())

		<-r.done
		assert.ErrorIs(t, r.err, controller.ErrSyncTimeout)
		assert.Regexp(t, `controller: manage source "informers": controller: not synced in time: 2m0s have passed: (apps, sites|sites, apps)`, r.err.Error())
		assert.Contains(t, r.err.Error(), `controller: manage source "other": controller: not synced in time: 2m0s have passed: other`, "all that are late are named")
	})
}

func TestAControllerThatBacksOffWhenItsTermEndsStartsWithTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		starts := &log[uint64]{}
		s := newStage(t, controller.ManagerConfig{Election: election(store), OnFailure: func(controller.PartFailure) controller.Reaction {
			return controller.RestartAfter(time.Hour)
		}})
		s.controller.run = func(ctx context.Context) error {
			term, _ := leaderelect.Term(ctx)
			starts.add(term)
			return errBoom
		}
		r := start(t, s.manager.Run)
		time.Sleep(time.Minute)
		store.cut.Store(true)
		time.Sleep(time.Minute)
		store.cut.Store(false)
		time.Sleep(time.Minute)
		assert.Equal(t, []uint64{1, 2}, starts.take())
		assert.Equal(t, []string{"source starts", "controller starts", "controller stops", "controller starts", "controller stops"}, s.events.take())
		require.NoError(t, s.manager.RemoveController(t.Context(), "controller"), "also while it backs off")
		time.Sleep(2 * time.Hour)
		assert.Empty(t, starts.take())
		require.NoError(t, r.stop())
	})
}

func TestAnElectionThatFailsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := &log[controller.PartFailure]{}
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases()), OnFailure: func(f controller.PartFailure) controller.Reaction {
			failures.add(f)
			return controller.RestartAfter(time.Minute)
		}})
		other := start(t, s.manager.Elector().Run) // whoever else has it
		synctest.Wait()
		r := start(t, s.manager.Run)
		time.Sleep(30 * time.Second)
		other.stop()
		time.Sleep(time.Minute)
		failed := failures.take()
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0].Err, leaderelect.ErrRunning)
		assert.Equal(t, controller.PartElection, failed[0].Kind)
		assert.Equal(t, "lock", failed[0].Name)
		require.NoError(t, r.stop())
	})
}

func TestAnOnFailureThatPanicsStopsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{OnFailure: func(controller.PartFailure) controller.Reaction { panic("what now") }})
		s.controller.run = func(context.Context) error { return errBoom }
		err := s.manager.Run(t.Context())
		require.EqualError(t, err, "controller: manage controller \"controller\": boom\nOnFailure: wait: recover from panic: what now")
		assert.Equal(t, "source stops", s.events.take()[4])
	})
}

func TestTheEndOfAPartThatIsToldToEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		s := newStage(t, controller.ManagerConfig{Election: election(store), OnFailure: func(f controller.PartFailure) controller.Reaction {
			t.Errorf("OnFailure was asked: %+v", f)
			return controller.StopAll()
		}})
		s.controller.run = func(ctx context.Context) error { <-ctx.Done(); return errBoom }
		r := start(t, s.manager.Run)
		synctest.Wait()
		store.cut.Store(true)
		time.Sleep(time.Minute)
		store.cut.Store(false)
		time.Sleep(time.Minute)
		require.ErrorIs(t, s.manager.RemoveController(t.Context(), "controller"), errBoom)
		require.NoError(t, s.manager.AddController(s.controller))
		synctest.Wait()
		require.ErrorIs(t, r.stop(), errBoom)
	})
}

func TestReactionsHaveNames(t *testing.T) {
	assert.Equal(t, "stop all", controller.StopAll().String())
	assert.Equal(t, "restart after 2s", controller.RestartAfter(2*time.Second).String())
	assert.Equal(t, "go on without it", controller.GoOnWithout().String())
}
