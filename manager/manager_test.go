package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
)

func TestNewReportsInvalidFields(t *testing.T) {
	withWork := election(memlease.New())
	withWork.OnStartedLeading = func(context.Context, *leaderelect.Leadership) error { return nil }
	for _, test := range []struct {
		cfg  manager.Config
		want string
	}{
		{manager.Config{HealthyAfter: -1}, "manager: new: Config.HealthyAfter is -1ns, must not be negative"},
		{manager.Config{Restart: wait.Backoff{Steps: 3}}, "manager: new: Config.Restart.Duration is 0s, must be positive if another field of Config.Restart is set"},
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
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
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
		store := &leases{Store: memlease.New()}
		stoppedLeading := false
		cfg := election(store)
		cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { stoppedLeading = true }
		s := newStage(t, manager.Config{Election: cfg})
		notes := s.watch(store)
		r := s.start(t)
		assert.Equal(t, started, s.events.Take())
		s.hook = func(ctx context.Context) error {
			notes.Store(true)
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

func TestLostLeadershipStopsControllersAndManagerCampaignsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		s := newStage(t, manager.Config{Election: election(store)})
		r := s.start(t)
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

func TestManagerRunsOnce(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		r := s.start(t)
		require.EqualError(t, s.manager.Run(t.Context()), "manager: run: the manager has run already: make a new one")
		assert.False(t, r.Ended())
		require.NoError(t, r.Stop())
		require.EqualError(t, s.manager.Run(t.Context()), "manager: run: the manager has run already: make a new one")
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
				lease := leaderelect.Config{Store: memlease.New(), Key: "lock"}
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

func TestLogSaysWhatRunsAndWhyItStopped(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, test := range map[string]struct {
		fail error
		end  string
	}{
		"it was stopped": {nil, `level=INFO msg=stopped cause="context canceled" duration=0s`},
		"a part failed":  {broken, `level=INFO msg=stopped cause="manager: run part \"disk\": the disk is full" duration=0s`},
	} {
		looptest.Bubble(t, name, func(t *testing.T) {
			var log looptest.Text
			sites := manager.Func("sites", func(ctx context.Context) error { <-ctx.Done(); return nil })
			m, err := manager.New(manager.Config{
				Logger:   looptest.Logger(&log),
				Election: &leaderelect.Config{Store: memlease.New(), Key: "shop", Logger: looptest.Logger(&looptest.Text{})},
			}, sites, manager.Func("disk", func(ctx context.Context) error {
				if test.fail == nil {
					<-ctx.Done()
				}
				return test.fail
			}))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, context.Canceled)
			defer cancel()
			require.ErrorIs(t, m.Run(ctx), test.fail)
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			assert.Regexp(t, `level=INFO msg=starting version=\S+ parts="\[sites disk\]" informers=\[\] lease=shop`, lines[0])
			assert.Contains(t, lines[len(lines)-1], test.end)
		})
	}
}

// The names of a controller and of its informer are often the same.
func TestLogSaysWhichPartWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log looptest.Text
		run, release := stuck(t)
		m, err := manager.New(manager.Config{Logger: looptest.Logger(&log), StopTimeout: time.Second}, manager.Func("sites", run))
		require.NoError(t, err)
		r := looptest.Start(t, m.Run)
		synctest.Wait()
		require.ErrorIs(t, r.Stop(), manager.ErrStopTimeout)
		assert.Contains(t, log.String(), `left="[part sites]"`)
		release()
	})
}
