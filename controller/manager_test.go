package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewManagerNamesWhatIsWrong(t *testing.T) {
	withWork := election(newLeases())
	withWork.OnStartedLeading = func(context.Context, *leaderelect.Leadership) error { return nil }
	for _, test := range []struct {
		cfg  controller.ManagerConfig
		want string
	}{
		{controller.ManagerConfig{HealthyAfter: -1}, "controller: new manager: ManagerConfig.HealthyAfter is -1ns, must not be negative"},
		{controller.ManagerConfig{Election: withWork}, "controller: new manager: ManagerConfig.Election.OnStartedLeading must be nil: add a controller"},
	} {
		_, err := controller.NewManager(test.cfg)
		require.EqualError(t, err, test.want)
	}
	_, err := controller.NewManager(controller.ManagerConfig{Election: &leaderelect.Config{}})
	require.ErrorContains(t, err, "controller: new manager: ManagerConfig.Election: ")
	require.ErrorContains(t, err, "Store")
}

func TestSourcesStartAndSyncThenControllersRunAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		s.source.hold = true
		s.manager.AddStopHook("second", func(context.Context) error {
			s.events.add("second hook")
			return nil
		})
		r := start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"source starts"}, s.events.take())
		close(s.source.synced)
		synctest.Wait()
		assert.Equal(t, []string{"controller starts"}, s.events.take())
		time.Sleep(time.Hour)
		assert.Empty(t, s.events.take())
		require.NoError(t, r.stop())
		assert.Equal(t, []string{
			"controller drained", "controller stops", "second hook", "hook", "source stops",
		}, s.events.take())
	})
}

func TestTheLeaseIsReleasedAfterTheStopHooksAndBeforeTheSourcesStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchedLeases{leases: newLeases()}
		stoppedLeading := false
		cfg := election(store)
		cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { stoppedLeading = true }
		s := newStage(t, controller.ManagerConfig{Election: cfg})
		store.events = s.events
		r := start(t, s.manager.Run)
		synctest.Wait()
		assert.Equal(t, started, s.events.take())
		s.hook = func(ctx context.Context) error {
			store.notes.Store(true)
			_, ok := leaderelect.Term(ctx)
			assert.True(t, ok)
			return nil
		}
		require.NoError(t, r.stop())
		assert.Equal(t, []string{
			"controller drained", "controller stops", "hook", "lease is written", "source stops",
		}, s.events.take())
		assert.True(t, stoppedLeading, "the callbacks of the user are called")
		assert.Nil(t, cfg.OnStartedLeading, "the configuration of the user is as it was")
	})
}

func TestAStandbyKeepsItsCachesWarmAndTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		first := newStage(t, controller.ManagerConfig{Election: election(store)})
		second := newStage(t, controller.ManagerConfig{Election: election(store)})
		r := start(t, first.manager.Run)
		time.Sleep(time.Second)
		r2 := start(t, second.manager.Run)
		time.Sleep(time.Hour)
		assert.Equal(t, started, first.events.take())
		assert.Equal(t, []string{"source starts"}, second.events.take())

		require.NoError(t, r.stop())
		time.Sleep(3 * time.Second) // the lease was released: no need to wait until it expires
		assert.Equal(t, []string{"controller starts"}, second.events.take())
		require.NoError(t, r2.stop())
		assert.Equal(t, stopped, second.events.take())
	})
}

func TestALostLeadershipStopsTheControllersAndTheManagerCampaignsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		r := start(t, s.manager.Run)
		synctest.Wait()
		assert.Equal(t, started, s.events.take())
		for range 3 {
			store.cut.Store(true)
			time.Sleep(time.Minute)
			assert.Equal(t, lost, s.events.take(), "no drain, no stop hook, and the source goes on")
			store.cut.Store(false)
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"controller starts"}, s.events.take())
		}
		require.NoError(t, r.stop())
		assert.Equal(t, stopped, s.events.take())
	})
}

func TestAControllerThatFailsWhenTheLeadershipIsLostDoesNotStopTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		s.controller.run = func(ctx context.Context) error {
			<-ctx.Done()
			return errBoom
		}
		r := start(t, s.manager.Run)
		synctest.Wait()
		store.cut.Store(true)
		time.Sleep(time.Minute)
		store.cut.Store(false)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"source starts", "controller starts", "controller stops", "controller starts"}, s.events.take())
		require.EqualError(t, r.stop(), `controller: manage controller "controller": boom`, "once: for the term that was stopped")
	})
}

func TestSourcesThatDoNotSyncInTimeAreNamedAndNothingElseStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
		other := newFakeSource("other", &log[string]{})
		other.hold = true
		s.manager.AddSource(other)
		began := time.Now()
		err := s.manager.Run(t.Context())
		require.ErrorIs(t, err, controller.ErrSyncTimeout)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		require.EqualError(t, err, `controller: manage source "other": controller: not synced in time: 2m0s have passed: other`)
		assert.Equal(t, []string{"source starts", "source stops"}, s.events.take())
	})
}

func TestAManagerRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.ErrorIs(t, s.manager.Run(t.Context()), controller.ErrUsed)
		assert.False(t, r.ended())
		require.NoError(t, r.stop())
		require.ErrorIs(t, s.manager.Run(t.Context()), controller.ErrUsed)
	})
}

func TestAManagerOfNothingWaitsForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := controller.NewManager(controller.ManagerConfig{})
		require.NoError(t, err)
		r := start(t, m.Run)
		time.Sleep(time.Hour)
		assert.False(t, r.ended())
		require.NoError(t, r.stop())
	})
}

func TestTheElectionLogsWhereTheManagerDoesUnlessItHasALoggerOfItsOwn(t *testing.T) {
	for name, configure := range map[string]func(cfg *controller.ManagerConfig, lease leaderelect.Config){
		"election": func(cfg *controller.ManagerConfig, lease leaderelect.Config) { cfg.Election = &lease },
		"slots": func(cfg *controller.ManagerConfig, lease leaderelect.Config) {
			cfg.Slots = &leaderelect.SlotsConfig{Lease: lease, Slots: 1}
		},
	} {
		for _, own := range []bool{false, true} {
			bubble(t, fmt.Sprint(name, " ", own), func(t *testing.T) {
				mine, theirs := &logText{}, &logText{}
				lease := leaderelect.Config{Store: newLeases(), Key: "lock"}
				if own {
					lease.Logger = textLogger(theirs)
				}
				cfg := controller.ManagerConfig{Logger: textLogger(mine)}
				configure(&cfg, lease)
				m, err := controller.NewManager(cfg)
				require.NoError(t, err)
				r := start(t, m.Run)
				time.Sleep(time.Minute)
				require.NoError(t, r.stop())
				assert.Equal(t, !own, strings.Contains(mine.String(), "leadership began"))
				assert.Equal(t, own, strings.Contains(theirs.String(), "leadership began"))
			})
		}
	}
}
