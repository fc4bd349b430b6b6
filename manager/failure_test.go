package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// doubling restarts after 1 s, 2 s, 4 s, ...
var doubling = manager.Backoff(wait.Backoff{Duration: time.Second, Factor: 2, Cap: 8 * time.Second})

// failing is a part that fails in all the ways, one after the other, each time after it has run for a while.
func failing(events *looptest.Log[time.Time], ran time.Duration) func(context.Context) error {
	var times atomic.Int64
	return func(ctx context.Context) error {
		events.Add(time.Now())
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

func TestFailedPartRestartsAfterBackoff(t *testing.T) {
	for _, kind := range []string{"informer", "part"} {
		bubble(t, string(kind), func(t *testing.T) {
			starts := &looptest.Log[time.Time]{}
			s := newStage(t, manager.Config{Restart: doubling})
			if kind == "informer" {
				s.informer.run = failing(starts, time.Second)
			} else {
				s.part.run = failing(starts, time.Second)
			}
			r := looptest.Start(t, s.manager.Run)
			time.Sleep(30*time.Second + 500*time.Millisecond)
			s.manager.CheckInvariants(t)
			assert.Equal(t, []float64{0, 2, 5, 10, 19, 28}, seconds(starts.Take()), "1 s to run, and 1, 2, 4, 8, 8 s to wait")
			stats := s.manager.Stats().Parts
			part := stats[0]
			if kind == "part" {
				part = stats[1]
			}
			assert.Equal(t, "backing off", part.State)
			assert.Equal(t, 1500*time.Millisecond, time.Since(part.Since))
			assert.Equal(t, 5, part.Restarts)
			require.ErrorContains(t, part.Err, "runtime.Goexit", "the sixth failure, as the second")
			assert.False(t, r.Ended())
			require.NoError(t, r.Stop(), "a recovered failure is not returned")
			time.Sleep(time.Minute)
			assert.Empty(t, starts.Take())
		})
	}
}

func TestHealthyPeriodResetsFailures(t *testing.T) {
	for _, test := range []struct {
		name   string
		cfg    manager.Config
		ran    time.Duration
		inARow []int
	}{
		{"shorter than the default", manager.Config{}, time.Minute - 1, []int{1, 2, 3}},
		{"as long as the default", manager.Config{}, time.Minute, []int{1, 1, 1}},
		{"shorter than HealthyAfter", manager.Config{HealthyAfter: time.Hour}, time.Hour - 1, []int{1, 2, 3}},
		{"as long as HealthyAfter", manager.Config{HealthyAfter: time.Hour}, time.Hour, []int{1, 1, 1}},
	} {
		bubble(t, test.name, func(t *testing.T) {
			failures := &looptest.Log[manager.Failure]{}
			test.cfg.Restart = func(f manager.Failure) (time.Duration, bool) {
				failures.Add(f)
				if failures.Len() == 3 {
					return 0, false
				}
				return time.Second, true
			}
			s := newStage(t, test.cfg)
			s.part.run = func(context.Context) error { time.Sleep(test.ran); return errBoom }
			require.ErrorIs(t, s.manager.Run(t.Context()), errBoom)
			var inARow []int
			for _, f := range failures.Take() {
				assert.Equal(t, test.ran, f.Ran)
				assert.Equal(t, "part", f.Kind)
				assert.Equal(t, "part", f.Name)
				assert.ErrorIs(t, f.Err, errBoom)
				inARow = append(inARow, f.InARow)
			}
			assert.Equal(t, test.inARow, inARow)
		})
	}
}

func TestUnsyncedInformerIsNeverHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inARow := &looptest.Log[int]{}
		s := newStage(t, manager.Config{Restart: func(f manager.Failure) (time.Duration, bool) {
			inARow.Add(f.InARow)
			return 0, true
		}})
		s.informer.hold = true
		s.informer.run = func(ctx context.Context) error { return wait.Sleep(ctx, 90*time.Second) }
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(5 * time.Minute)
		assert.Equal(t, []int{1, 2, 3}, inARow.Take())
		require.NoError(t, r.Stop())
	})
}

// The time to sync does not count.
func TestInformerIsHealthyOnlyWhileSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inARow := &looptest.Log[int]{}
		s := newStage(t, manager.Config{Restart: func(f manager.Failure) (time.Duration, bool) {
			inARow.Add(f.InARow)
			return 0, true
		}})
		s.informer.hold = true
		runs := 0
		s.informer.run = func(ctx context.Context) error {
			switch runs++; runs {
			case 2:
				time.Sleep(59 * time.Second)
				close(s.informer.synced)
				time.Sleep(59 * time.Second)
			case 3:
				time.Sleep(time.Minute)
			case 4:
				<-ctx.Done()
				return nil
			}
			return errBoom
		}
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(5 * time.Minute)
		assert.Equal(t, []int{1, 2, 1}, inARow.Take())
		require.NoError(t, r.Stop())
	})
}

func TestBackoffGivesUpAfterStepsOrEndedInformer(t *testing.T) {
	policy := manager.Backoff(wait.Backoff{Duration: time.Second, Steps: 3})
	decides := func(restart func(manager.Failure) (time.Duration, bool), n int, err error) string {
		return fmt.Sprint(restart(manager.Failure{InARow: n, Err: err}))
	}
	assert.Equal(t, "1s true", decides(policy, 1, errBoom))
	assert.Equal(t, "1s true", decides(policy, 2, errBoom))
	assert.Equal(t, "0s false", decides(policy, 3, errBoom))
	assert.Equal(t, "0s false", decides(policy, 4, errBoom))
	assert.Equal(t, "0s false", decides(policy, 1, errors.Join(informer.ErrEnded)))
	assert.Equal(t, "1s true", decides(doubling, 1, errBoom))
	assert.Equal(t, "8s true", decides(doubling, 1000, errBoom))
}

func TestManagerMayContinueWithoutFailedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var m *manager.Manager
		m, err := manager.New(manager.Config{
			Restart: func(f manager.Failure) (time.Duration, bool) {
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				assert.ErrorContains(t, m.Remove(ended, f.Name), "has not ended yet")
				return 0, true
			},
			Logger:   slog.New(slog.NewTextHandler(&logged, nil)),
			Election: election(newLeases()),
		})
		require.NoError(t, err)
		events := &looptest.Log[string]{}
		bad := newFakeInformer("bad", events)
		bad.hold = true
		bad.run = func(context.Context) error { return errBoom }
		require.NoError(t, m.Add(bad))
		panics := newFakePart("panics", events)
		panics.run = func(context.Context) error { panic(errBoom) }
		require.NoError(t, m.Add(panics))
		require.NoError(t, m.Add(newFakePart("good", events)))
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		m.CheckInvariants(t)
		assert.Len(t, m.Stats().Parts, 2, "the healthy part and the election")
		require.ErrorIs(t, m.Remove(t.Context(), "panics"), manager.ErrNoPart)
		require.NoError(t, m.Add(newFakePart("panics", events)), "the name is free")
		synctest.Wait()
		assert.Contains(t, logged.String(), `msg="part failed, will not be restarted" kind=informer name=bad error=boom inARow=1`)
		assert.Contains(t, logged.String(), "failure_test.go", "the stack of the panic")
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{
			"bad starts", "bad stops", "panics starts", "panics stops", "good starts", "panics starts",
		}, sortedHead(events.Take(), 6))
	})
}

// sortedHead returns the first n of events, where the good controller, which starts together with another, starts after that.
func sortedHead(events []string, n int) []string {
	const good = "good starts"
	i := slices.Index(events, good)
	events = slices.Delete(slices.Clone(events[:n]), i, i+1)
	return slices.Insert(events, n-2, good)
}

func TestLateInformerIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := &looptest.Log[manager.Failure]{}
		s := newStage(t, manager.Config{SyncTimeout: time.Minute, Restart: func(f manager.Failure) (time.Duration, bool) {
			failures.Add(f)
			return time.Second, true
		}})
		s.informer.hold = true
		tries := 0
		s.informer.run = func(ctx context.Context) error {
			if tries++; tries == 2 {
				close(s.informer.synced)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute + 500*time.Millisecond)
		assert.Equal(t, []string{"informer starts", "informer stops"}, s.events.Take())
		failed := failures.Take()
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0].Err, manager.ErrSyncTimeout)
		assert.Equal(t, time.Minute, failed[0].Ran)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"informer starts", "part starts"}, s.events.Take())
		require.NoError(t, r.Stop())
	})
}

func TestLateInformerStillFailsWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, cancel := context.WithCancel(t.Context())
		cancel()
		informer := newFakeInformer("slow", &looptest.Log[string]{})
		for range 50 { // both are true, and select takes either
			require.ErrorIs(t, manager.AwaitSync(told, make(chan struct{}), 0, informer.synced), manager.ErrSyncTimeout)
		}
		require.NoError(t, manager.AwaitSync(told, make(chan struct{}), 1, informer.synced))
		require.NoError(t, manager.AwaitSync(told, make(chan struct{}), -1, informer.synced))
	})
}

func TestNegativeSyncTimeoutWaitsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{SyncTimeout: -1})
		s.informer.hold = true
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(1000 * time.Hour)
		close(s.informer.synced)
		synctest.Wait()
		assert.Equal(t, started, s.events.Take())
		require.NoError(t, r.Stop())
	})
}

func TestUnsyncedInformersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apps, sites := newFakeInformer("apps", &looptest.Log[string]{}), newFakeInformer("sites", &looptest.Log[string]{})
		apps.hold, sites.hold = true, true
		done := newFakeInformer("done", &looptest.Log[string]{})
		m := must(manager.New(manager.Config{Logger: quiet}, apps, sites, done))
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		require.EqualError(t, m.Ready(), `manager: not ready: the manager is syncing
manager: not ready: informer "apps" has not synced
manager: not ready: informer "sites" has not synced`)
		<-r.Done()
		require.ErrorIs(t, r.Stop(), manager.ErrSyncTimeout)
		for _, name := range []string{"apps", "sites"} {
			assert.ErrorContains(t, r.Stop(), `manager: run informer "`+name+`": not synced in time: 2m0s have passed`)
		}
	})
}

func TestBackedOffControllerStartsWithNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		starts := &looptest.Log[uint64]{}
		s := newStage(t, manager.Config{Election: election(store), Restart: func(manager.Failure) (time.Duration, bool) {
			return time.Hour, true
		}})
		s.part.run = func(ctx context.Context) error {
			l, _ := leaderelect.FromContext(ctx)
			starts.Add(l.Term())
			return errBoom
		}
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		cut(store, true)
		time.Sleep(time.Minute)
		cut(store, false)
		time.Sleep(time.Minute)
		assert.Equal(t, []uint64{1, 2}, starts.Take())
		assert.Equal(t, []string{"informer starts", "part starts", "part stops", "part starts", "part stops"}, s.events.Take())
		require.NoError(t, s.manager.Remove(t.Context(), "part"), "even during backoff")
		time.Sleep(2 * time.Hour)
		assert.Empty(t, starts.Take())
		require.NoError(t, r.Stop())
	})
}

func TestFailedElectionRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := &looptest.Log[manager.Failure]{}
		s := newStage(t, manager.Config{Election: election(newLeases()), Restart: func(f manager.Failure) (time.Duration, bool) {
			failures.Add(f)
			return time.Minute, true
		}})
		other := looptest.Start(t, s.manager.Elector().Run) // whoever else has it
		synctest.Wait()
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(30 * time.Second)
		other.Stop()
		time.Sleep(time.Minute)
		failed := failures.Take()
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0].Err, leaderelect.ErrRunning)
		assert.Equal(t, "election", failed[0].Kind)
		assert.Equal(t, "lock", failed[0].Name)
		require.NoError(t, r.Stop())
	})
}

func TestPanickingRestartFuncStopsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{Restart: func(manager.Failure) (time.Duration, bool) { panic("what now") }})
		s.part.run = func(context.Context) error { return errBoom }
		err := s.manager.Run(t.Context())
		require.EqualError(t, err, "manager: run part \"part\": boom; Config.Restart: panic: what now")
		assert.Equal(t, "informer stops", s.events.Take()[4])
	})
}

func TestStoppedPartReturningIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		s := newStage(t, manager.Config{Election: election(store), Restart: func(f manager.Failure) (time.Duration, bool) {
			t.Errorf("Restart was asked: %+v", f)
			return 0, false
		}})
		s.part.run = func(ctx context.Context) error { <-ctx.Done(); return errBoom }
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		cut(store, true)
		time.Sleep(time.Minute)
		cut(store, false)
		time.Sleep(time.Minute)
		require.ErrorIs(t, s.manager.Remove(t.Context(), "part"), errBoom)
		require.NoError(t, s.manager.Add(s.part))
		synctest.Wait()
		require.ErrorIs(t, r.Stop(), errBoom)
	})
}
