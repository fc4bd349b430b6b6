package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAManagerCanBeCancelledInEachStage(t *testing.T) {
	bubble(t, "before it begins", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.manager.Run(ctx))
		assert.Empty(t, s.events.take())
	})
	bubble(t, "while the sources sync", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
		s.source.hold = true
		r := start(t, s.manager.Run)
		time.Sleep(time.Second)
		require.NoError(t, r.stop())
		assert.Equal(t, []string{"source starts", "source stops"}, s.events.take())
	})
	bubble(t, "in standby", func(t *testing.T) {
		store := newLeases()
		lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		time.Sleep(time.Second)
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		r := start(t, s.manager.Run)
		time.Sleep(time.Minute)
		require.NoError(t, r.stop())
		assert.Equal(t, []string{"source starts", "source stops"}, s.events.take(), "no stop hook: this one did not lead")
	})
	bubble(t, "in standby after a term", func(t *testing.T) {
		store := newLeases()
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		r := start(t, s.manager.Run)
		synctest.Wait()
		store.cut.Store(true)
		time.Sleep(time.Minute)
		require.NoError(t, r.stop())
		assert.Equal(t, []string{"source starts", "controller starts", "controller stops", "source stops"}, s.events.take())
	})
	bubble(t, "while it leads", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
		r := start(t, s.manager.Run)
		time.Sleep(time.Minute)
		require.NoError(t, r.stop())
		assert.Equal(t, append(started, stopped...), s.events.take())
	})
	bubble(t, "while it stops, by the loss of the lease", func(t *testing.T) {
		store := newLeases()
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		s.hook = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		r := start(t, s.manager.Run)
		synctest.Wait()
		s.events.take()
		r.cancel()
		time.Sleep(2 * time.Second)
		store.cut.Store(true)
		err := r.stop()
		require.ErrorContains(t, err, `controller: manage stop hook "hook": leaderelect: lease has expired`)
		assert.Equal(t, stopped, s.events.take())
	})
}

// failures are the ways in which a part can fail while it should run.
var failures = []struct {
	name string
	fail func() error
	want error
}{
	{"returns an error", func() error { return errBoom }, errBoom},
	{"ends by itself", func() error { return nil }, controller.ErrEnded},
	{"says that it was cancelled, which it was not", func() error { return context.Canceled }, context.Canceled},
	{"panics", func() error { panic(errBoom) }, errBoom},
}

func TestASourceThatFailsStopsEverythingInOrder(t *testing.T) {
	for _, f := range failures {
		bubble(t, f.name+" before it has synced", func(t *testing.T) {
			s := newStage(t, controller.ManagerConfig{})
			s.source.hold = true
			s.source.run = func(context.Context) error {
				time.Sleep(time.Second)
				return f.fail()
			}
			err := s.manager.Run(t.Context())
			require.ErrorIs(t, err, f.want)
			require.NotErrorIs(t, err, controller.ErrSyncTimeout)
			assert.Contains(t, err.Error(), `controller: manage source "source": `)
			assert.Equal(t, []string{"source starts", "source stops"}, s.events.take())
		})
		bubble(t, f.name+" later", func(t *testing.T) {
			s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
			s.source.run = func(context.Context) error {
				time.Sleep(time.Second)
				return f.fail()
			}
			other := newFakeSource("other", s.events)
			s.manager.AddSource(other)
			err := s.manager.Run(t.Context())
			require.ErrorIs(t, err, f.want)
			assert.Contains(t, err.Error(), `controller: manage source "source": `)
			events := s.events.take()
			assert.ElementsMatch(t, []string{"source starts", "other starts"}, events[:2])
			assert.Equal(t, []string{
				"controller starts", "source stops", "controller drained", "controller stops", "hook", "other stops",
			}, events[2:])
		})
	}
}

func TestAControllerThatFailsStopsEverythingInOrder(t *testing.T) {
	for _, f := range failures {
		for _, elected := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, elected: %v", f.name, elected), func(t *testing.T) {
				cfg := controller.ManagerConfig{}
				if elected {
					cfg.Election = election(newLeases())
				}
				s := newStage(t, cfg)
				s.manager.AddController(&fakeRunner{name: "bad", events: &log[string]{}, run: func(context.Context) error {
					time.Sleep(time.Second)
					return f.fail()
				}})
				err := s.manager.Run(t.Context())
				require.ErrorIs(t, err, f.want)
				assert.Contains(t, err.Error(), `controller: manage controller "bad": `)
				assert.Equal(t, append(started, stopped...), s.events.take())
			})
		}
	}
}

func TestAnElectionThatFailsStopsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := election(newLeases())
		s := newStage(t, controller.ManagerConfig{Election: cfg})
		other := start(t, s.manager.Elector().Run) // whoever else has it
		synctest.Wait()
		err := s.manager.Run(t.Context())
		require.ErrorContains(t, err, `controller: manage election "lock": `)
		other.stop()
	})
}

func TestAllErrorsOfAStopAreJoinedInTheOrderOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		fail := func(message string) func(context.Context) error {
			return func(ctx context.Context) error {
				<-ctx.Done()
				return errors.New(message)
			}
		}
		s.source.run = fail("source failed")
		s.controller.run = fail("not drained")
		s.hook = func(context.Context) error { panic("hook failed") }
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.stop(), `controller: manage controller "controller": not drained
controller: manage stop hook "hook": wait: recover from panic: hook failed
controller: manage source "source": source failed`)
	})
}

func TestAPartThatReturnsTheEndOfItsContextIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		ended := func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", ctx.Err())
		}
		s.source.run = ended
		s.controller.run = ended
		s.manager.AddController(&fakeRunner{name: "other", events: s.events, run: func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		ctx, cancel := context.WithCancelCause(t.Context())
		r := startIn(t, ctx, s.manager.Run)
		synctest.Wait()
		cancel(errBoom)
		require.NoError(t, r.stop())
	})
}

func TestTheStopHooksHaveAContextOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		s := newStage(t, controller.ManagerConfig{StopTimeout: 5 * time.Second})
		s.manager.AddStopHook("first", func(ctx context.Context) error {
			require.NoError(t, ctx.Err())
			assert.Equal(t, 7, ctx.Value(valueKey{}))
			time.Sleep(2 * time.Second)
			return nil
		})
		s.hook = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		r := startIn(t, context.WithValue(t.Context(), valueKey{}, 7), s.manager.Run)
		synctest.Wait()
		began := time.Now()
		err := r.stop()
		require.ErrorIs(t, err, controller.ErrStopTimeout)
		assert.Equal(t, 5*time.Second, time.Since(began), "the drain of the controller, and the hooks together")
	})
}

func TestAPanicOfAPartKeepsItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		s.controller.run = func(context.Context) error { panic("oh") }
		var p *wait.PanicError
		require.ErrorAs(t, s.manager.Run(t.Context()), &p)
		assert.Contains(t, string(p.Stack), "manager_stop_test.go")
	})
}
