package manager_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewReportsInvalidFields(t *testing.T) {
	withWork := election(newLeases())
	withWork.OnStartedLeading = func(context.Context, *leaderelect.Leadership) error { return nil }
	for _, test := range []struct {
		cfg  manager.Config
		want string
	}{
		{manager.Config{HealthyAfter: -1}, "manager: new: Config.HealthyAfter is -1ns, must not be negative"},
		{manager.Config{Election: withWork}, "manager: new: Config.Election.OnStartedLeading must be nil: add a part"},
	} {
		_, err := manager.New(test.cfg)
		require.EqualError(t, err, test.want)
	}
	_, err := manager.New(manager.Config{Election: &leaderelect.Config{}})
	require.ErrorContains(t, err, "manager: new: Config.Election: ")
	require.ErrorContains(t, err, "Store")
}

func TestStartAndStopOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{})
		s.informer.hold = true
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"informer starts"}, s.events.Take())
		close(s.informer.synced)
		synctest.Wait()
		assert.Equal(t, []string{"part starts"}, s.events.Take())
		time.Sleep(time.Hour)
		assert.Empty(t, s.events.Take())
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{
			"part drained", "part stops", "hook", "informer stops",
		}, s.events.Take())
	})
}

func TestLeaseIsReleasedBetweenBeforeReleaseAndInformerStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchedLeases{Store: newLeases()}
		stoppedLeading := false
		cfg := election(store)
		cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { stoppedLeading = true }
		s := newStage(t, manager.Config{Election: cfg})
		store.events = s.events
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		assert.Equal(t, started, s.events.Take())
		s.hook = func(ctx context.Context) error {
			store.notes.Store(true)
			_, ok := leaderelect.FromContext(ctx)
			assert.True(t, ok)
			return nil
		}
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{
			"part drained", "part stops", "hook", "lease is written", "informer stops",
		}, s.events.Take())
		assert.True(t, stoppedLeading, "the callbacks of the user are called")
		assert.Nil(t, cfg.OnStartedLeading, "the configuration of the user is as it was")
	})
}

func TestStandbyKeepsCachesWarmAndTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		first := newStage(t, manager.Config{Election: election(store)})
		second := newStage(t, manager.Config{Election: election(store)})
		r := looptest.Start(t, first.manager.Run)
		time.Sleep(time.Second)
		r2 := looptest.Start(t, second.manager.Run)
		time.Sleep(time.Hour)
		assert.Equal(t, started, first.events.Take())
		assert.Equal(t, []string{"informer starts"}, second.events.Take())

		require.NoError(t, r.Stop())
		time.Sleep(3 * time.Second) // the lease was released: no need to wait until it expires
		assert.Equal(t, []string{"part starts"}, second.events.Take())
		require.NoError(t, r2.Stop())
		assert.Equal(t, stopped, second.events.Take())
	})
}

func TestLostLeadershipStopsControllersAndManagerCampaignsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		s := newStage(t, manager.Config{Election: election(store)})
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		assert.Equal(t, started, s.events.Take())
		for range 3 {
			cut(store, true)
			time.Sleep(time.Minute)
			assert.Equal(t, lost, s.events.Take(), "no drain, no BeforeRelease, and the informer goes on")
			cut(store, false)
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"part starts"}, s.events.Take())
		}
		require.NoError(t, r.Stop())
		assert.Equal(t, stopped, s.events.Take())
	})
}

func TestControllerErrorAfterLostLeadershipDoesNotStopManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		s := newStage(t, manager.Config{Election: election(store)})
		s.part.run = func(ctx context.Context) error {
			<-ctx.Done()
			return errBoom
		}
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		cut(store, true)
		time.Sleep(time.Minute)
		cut(store, false)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"informer starts", "part starts", "part stops", "part starts"}, s.events.Take())
		require.EqualError(t, r.Stop(), `manager: run part "part": boom`, "once: for the term that was stopped")
	})
}

func TestSyncTimeoutNamesInformersAndStartsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{Election: election(newLeases())})
		other := newFakeInformer("other", &looptest.Log[string]{})
		other.hold = true
		s.manager.Add(other)
		began := time.Now()
		err := s.manager.Run(t.Context())
		require.ErrorIs(t, err, manager.ErrSyncTimeout)
		assert.Equal(t, 2*time.Minute, time.Since(began))
		require.EqualError(t, err, `manager: run informer "other": not synced in time: 2m0s have passed`)
		assert.Equal(t, []string{"informer starts", "informer stops"}, s.events.Take())
	})
}

func TestManagerRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{})
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, s.manager.Run(t.Context()), "manager: run: the manager has run already: make a new one")
		assert.False(t, r.Ended())
		require.NoError(t, r.Stop())
		require.EqualError(t, s.manager.Run(t.Context()), "manager: run: the manager has run already: make a new one")
	})
}

func TestEmptyManagerWaitsForContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := manager.New(manager.Config{})
		require.NoError(t, err)
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Hour)
		assert.False(t, r.Ended())
		require.NoError(t, r.Stop())
	})
}

func TestElectionLoggerDefaultsToManagersLogger(t *testing.T) {
	for name, configure := range map[string]func(cfg *manager.Config, lease leaderelect.Config){
		"election": func(cfg *manager.Config, lease leaderelect.Config) { cfg.Election = &lease },
		"slots": func(cfg *manager.Config, lease leaderelect.Config) {
			cfg.Shards = &shard.Config{Lease: lease, Slots: 1}
		},
	} {
		for _, own := range []bool{false, true} {
			bubble(t, fmt.Sprint(name, " ", own), func(t *testing.T) {
				mine, theirs := &looptest.Text{}, &looptest.Text{}
				lease := leaderelect.Config{Store: newLeases(), Key: "lock"}
				if own {
					lease.Logger = looptest.Logger(theirs)
				}
				cfg := manager.Config{Logger: looptest.Logger(mine)}
				configure(&cfg, lease)
				m, err := manager.New(cfg)
				require.NoError(t, err)
				r := looptest.Start(t, m.Run)
				time.Sleep(time.Minute)
				require.NoError(t, r.Stop())
				assert.Equal(t, !own, strings.Contains(mine.String(), "leadership began"))
				assert.Equal(t, own, strings.Contains(theirs.String(), "leadership began"))
			})
		}
	}
}
