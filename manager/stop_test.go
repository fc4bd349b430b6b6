package manager_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
)

func TestManagerMayBeCanceledInEachStage(t *testing.T) {
	subStage(t, "before it starts", manager.Config{Election: election(memlease.New())}, func(t *testing.T, s *fakeStage) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.manager.Run(ctx))
		assert.Empty(t, s.events.Take())
	})
	subStage(t, "while the informers sync", manager.Config{Election: election(memlease.New())}, func(t *testing.T, s *fakeStage) {
		s.informer.hold = true
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Second)
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"informer starts", "informer stops"}, s.events.Take())
	})
	bubble(t, "in standby", func(t *testing.T) {
		store := memlease.New()
		lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		time.Sleep(time.Second)
		s := newStage(t, manager.Config{Election: election(store)})
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"informer starts", "informer stops"}, s.events.Take(), "no BeforeRelease: this one did not lead")
	})
	bubble(t, "in standby after a term", func(t *testing.T) {
		store := memlease.New()
		s := newStage(t, manager.Config{Election: election(store)})
		r := s.start(t)
		cut(store, true)
		time.Sleep(time.Minute)
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"informer starts", "part starts", "part stops", "informer stops"}, s.events.Take())
	})
	bubble(t, "while it stops, by the loss of the lease", func(t *testing.T) {
		store := memlease.New()
		s := newStage(t, manager.Config{Election: election(store)})
		s.hook = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		r := s.start(t)
		s.events.Take()
		r.Cancel()
		time.Sleep(2 * time.Second)
		cut(store, true)
		err := r.Stop()
		require.ErrorContains(t, err, `manager: call BeforeRelease: leaderelect: lease has expired`)
		assert.Equal(t, stopped, s.events.Take())
	})
}

// failures are the ways in which a part can fail while it should run.
var failures = []struct {
	name string
	fail func() error
	want error
}{
	{"returns an error", func() error { return errBoom }, errBoom},
	{"ends by itself", func() error { return nil }, manager.ErrEnded},
	{"returns context.Canceled without a cancel", func() error { return context.Canceled }, context.Canceled},
	{"panics", func() error { panic(errBoom) }, errBoom},
}

func TestFailedInformerStopsEverythingInOrder(t *testing.T) {
	for _, f := range failures {
		subStage(t, f.name+" before it has synced", manager.Config{}, func(t *testing.T, s *fakeStage) {
			s.informer.hold = true
			s.informer.run = func(context.Context) error {
				time.Sleep(time.Second)
				return f.fail()
			}
			err := s.manager.Run(t.Context())
			require.ErrorIs(t, err, f.want)
			require.NotErrorIs(t, err, manager.ErrSyncTimeout)
			assert.Contains(t, err.Error(), `manager: run informer "informer": `)
			assert.Equal(t, []string{"informer starts", "informer stops"}, s.events.Take())
		})
		subStage(t, f.name+" later", manager.Config{Election: election(memlease.New())}, func(t *testing.T, s *fakeStage) {
			s.informer.run = func(context.Context) error {
				time.Sleep(time.Second)
				return f.fail()
			}
			other := newFakeInformer("other", s.events)
			s.manager.Add(other)
			err := s.manager.Run(t.Context())
			require.ErrorIs(t, err, f.want)
			assert.Contains(t, err.Error(), `manager: run informer "informer": `)
			events := s.events.Take()
			assert.ElementsMatch(t, []string{"informer starts", "other starts"}, events[:2])
			assert.Equal(t, []string{
				"part starts", "informer stops", "part drained", "part stops", "hook", "other stops",
			}, events[2:])
		})
	}
}

func TestFailedControllerStopsEverythingInOrder(t *testing.T) {
	for _, f := range failures {
		for _, elected := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, elected: %v", f.name, elected), func(t *testing.T) {
				cfg := manager.Config{}
				if elected {
					cfg.Election = election(memlease.New())
				}
				s := newStage(t, cfg)
				s.manager.Add(&fakePart{name: "bad", events: &looptest.Log[string]{}, run: func(context.Context) error {
					time.Sleep(time.Second)
					return f.fail()
				}})
				err := s.manager.Run(t.Context())
				require.ErrorIs(t, err, f.want)
				assert.Contains(t, err.Error(), `manager: run part "bad": `)
				assert.Equal(t, append(started, stopped...), s.events.Take())
			})
		}
	}
}

func TestStopErrorsAreJoinedInChronologicalOrder(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		fail := func(message string) func(context.Context) error {
			return func(ctx context.Context) error {
				<-ctx.Done()
				return errors.New(message)
			}
		}
		s.informer.run = fail("informer failed")
		s.part.run = fail("not drained")
		s.hook = func(context.Context) error { panic("hook failed") }
		r := s.start(t)
		require.EqualError(t, r.Stop(), `manager: run part "part": not drained
manager: call BeforeRelease: panic: hook failed
manager: run informer "informer": informer failed`)
	})
}

func TestPartReturningContextErrorIsNoFailure(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		ended := func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", ctx.Err())
		}
		s.informer.run = ended
		s.part.run = ended
		s.manager.Add(&fakePart{name: "other", events: s.events, run: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		ctx, cancel := context.WithCancelCause(t.Context())
		r := looptest.StartIn(ctx, t, s.manager.Run)
		synctest.Wait()
		cancel(errBoom)
		require.NoError(t, r.Stop())
	})
}

func TestBeforeReleaseHasItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		s := newStage(t, manager.Config{StopTimeout: 5 * time.Second})
		s.hook = func(ctx context.Context) error {
			require.NoError(t, ctx.Err())
			assert.Equal(t, 7, ctx.Value(valueKey{}))
			<-ctx.Done()
			return context.Cause(ctx)
		}
		r := looptest.StartIn(context.WithValue(t.Context(), valueKey{}, 7), t, s.manager.Run)
		synctest.Wait()
		began := time.Now()
		err := r.Stop()
		require.ErrorIs(t, err, manager.ErrStopTimeout)
		assert.Equal(t, 5*time.Second, time.Since(began), "the drain of the part, and BeforeRelease together")
	})
}
