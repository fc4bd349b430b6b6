package manager_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
)

// ledStage is a fakeStage that leads.
type ledStage struct {
	*fakeStage
	*looptest.Running
	store *memlease.Store
	out   *looptest.Text // what the manager logs
	exits atomic.Int64
	term  chan *leaderelect.Leadership // of the part, when it has begun
}

// newLedStage returns a manager that runs and whose part does the given work. Parts beside it come from others.
func newLedStage(
	t *testing.T, configure func(*leaderelect.Config), work func(ctx context.Context), others ...manager.Part,
) *ledStage {
	t.Helper()
	s := &ledStage{store: memlease.New(), out: &looptest.Text{}, term: make(chan *leaderelect.Leadership, 1)}
	cfg := election(s.store)
	configure(cfg)
	s.fakeStage = newStage(t, manager.Config{Election: cfg, Logger: looptest.Logger(s.out)})
	require.NoError(t, s.manager.Add(others...))
	s.manager.SetExit(func(*leaderelect.Leadership) { s.exits.Add(1) })
	s.part.run = func(ctx context.Context) error {
		l, _ := leaderelect.FromContext(ctx)
		s.term <- l
		work(ctx)
		return nil
	}
	s.Running = looptest.Start(t, s.manager.Run)
	return s
}

// asItIs leaves an election as it is.
func asItIs(*leaderelect.Config) {}

// lose takes the lease away. It returns when the context of the part has ended.
func (s *ledStage) lose() *leaderelect.Leadership {
	l := <-s.term
	cut(s.store, true)
	<-l.Context().Done()
	synctest.Wait()
	return l
}

func TestProcessExitsWhenPartOutlivesLeadership(t *testing.T) {
	check := func(t *testing.T, store *memlease.Store, exits *atomic.Int64, out *looptest.Text) {
		synctest.Wait()
		cut(store, true)
		time.Sleep(12 * time.Second)
		assert.Zero(t, exits.Load())
		time.Sleep(2 * time.Second)
		assert.EqualValues(t, 1, exits.Load())
		assert.Contains(t, out.String(), "another may lead")
	}
	bubble(t, "election", func(t *testing.T) {
		run, release := stuck(t)
		innocent := manager.At(manager.Always, newFakePart("innocent", &looptest.Log[string]{}))
		s := newLedStage(t, asItIs, func(context.Context) { _ = run(nil) }, innocent)
		check(t, s.store, &s.exits, s.out)
		assert.Contains(t, s.out.String(), "the process ends\" parts=[part] ", "and not the innocent one")
		release()
		_ = s.Stop()
	})
	bubble(t, "slots", func(t *testing.T) {
		run, release := stuck(t)
		s := newSharedWork(t, shard.Config{Slots: 1}, func(context.Context, int) { _ = run(nil) })
		check(t, s.store, &s.exits, s.out)
		release()
		_ = s.Stop()
	})
}

// As after a suspend: the parts were stopped only now.
func TestPartsHaveGracePeriodBeforeProcessExits(t *testing.T) {
	for lasts, ends := range map[time.Duration]bool{900 * time.Millisecond: false, 1100 * time.Millisecond: true} {
		bubble(t, lasts.String(), func(t *testing.T) {
			s := newLedStage(t, asItIs, func(ctx context.Context) { <-ctx.Done(); time.Sleep(lasts) })
			l := s.lose()
			began := time.Now()
			s.manager.Overrun(l)
			assert.Equal(t, min(lasts, time.Second), time.Since(began))
			assert.Equal(t, ends, s.exits.Load() == 1)
			_ = s.Stop()
		})
	}
}

// The grace period counts from the stop of the last part.
func TestSlowRemovalDoesNotShortenGraceOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newFakePart("slow", &looptest.Log[string]{})
		slow.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(900 * time.Millisecond); return nil }
		s := newLedStage(t, asItIs, func(ctx context.Context) {
			l, _ := leaderelect.FromContext(ctx)
			<-l.Context().Done()
			time.Sleep(500 * time.Millisecond)
		}, slow)
		synctest.Wait()
		require.ErrorContains(t, s.manager.Remove(ended(), "part"), "has not ended yet")
		time.Sleep(time.Second)
		l := s.lose()
		began := time.Now()
		s.manager.Overrun(l)
		assert.Equal(t, 900*time.Millisecond, time.Since(began))
		assert.Zero(t, s.exits.Load())
		_ = s.Stop()
	})
}

// The process is suspended between the acquisition and the first call.
func TestProcessContinuesWhenFirstTermIsLostBeforeWorkStarts(t *testing.T) {
	inStage(t, manager.Config{Election: election(memlease.New())}, func(t *testing.T, s *fakeStage) {
		s.manager.SetExit(func(*leaderelect.Leadership) { t.Error("nothing has begun") })
		work, depose := leaderelect.Appoint(t.Context(), "lease", 1)
		depose(leaderelect.ErrLeaseExpired)
		l, _ := leaderelect.FromContext(work)
		s.manager.Overrun(l)
	})
}

// As after a suspend, when the parts have ended before the manager checks.
func TestProcessContinuesWhenNoPartRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLedStage(t, asItIs, func(ctx context.Context) { <-ctx.Done() })
		l := s.lose()
		s.manager.Overrun(l)
		assert.Zero(t, s.exits.Load())
		_ = s.Stop()
		assert.NotContains(t, s.out.String(), "OnStoppedLeading")
	})
	synctest.Test(t, func(t *testing.T) {
		called := 0
		s := newLedStage(t, func(cfg *leaderelect.Config) {
			cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { called++ }
		}, func(ctx context.Context) { <-ctx.Done() })
		l := s.lose()
		s.manager.Overrun(l)
		assert.Equal(t, 1, called)
		assert.Zero(t, s.exits.Load())
		_ = s.Stop()
	})
}

func TestProcessExitsWhenOnStoppedLeadingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, release := stuck(t)
		s := newLedStage(t, func(cfg *leaderelect.Config) {
			cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { _ = run(nil) }
		}, func(ctx context.Context) { <-ctx.Done() })
		time.Sleep(time.Second)
		cut(s.store, true)
		time.Sleep(time.Minute) // the lease is lost, the part has ended, the callback has not returned
		assert.EqualValues(t, 1, s.exits.Load())
		release()
		_ = s.Stop()
	})
}

// sharedWork is a manager with slots, whose only controller works on one key of each slot.
type sharedWork struct {
	t *testing.T
	fakePart
	*looptest.Running
	store   *memlease.Store
	manager *manager.Manager
	exits   atomic.Int64
	out     *looptest.Text // what the manager logs
	working sync.WaitGroup
	slots   chan int                             // that were acquired and have no work yet
	terms   map[int]chan *leaderelect.Leadership // of the work that has begun, by slot
}

func (s *sharedWork) Share(slots controller.Slots) { assert.Equal(s.t, s.manager.Slots(), slots) }
func (s *sharedWork) Acquired(slot int)            { s.slots <- slot }
func (s *sharedWork) Revoked(int)                  {}

func (s *sharedWork) Prepare(context.Context, int) error { return nil }

// newSharedWork returns a manager that runs. In each slot, work is called as soon as the slot was acquired.
func newSharedWork(t *testing.T, cfg shard.Config, work func(ctx context.Context, slot int)) *sharedWork {
	t.Helper()
	s := &sharedWork{t: t, store: memlease.New(), out: &looptest.Text{}, slots: make(chan int, cfg.Slots), terms: map[int]chan *leaderelect.Leadership{}}
	keys := map[int]string{}
	cfg.Lease.Store, cfg.Lease.Key, cfg.Lease.Logger = s.store, "lock", quiet
	var err error
	s.manager, err = manager.New(manager.Config{Shards: &cfg, Logger: looptest.Logger(s.out)})
	require.NoError(t, err)
	s.manager.SetExit(func(*leaderelect.Leadership) { s.exits.Add(1) })
	for key := 'a'; len(keys) < cfg.Slots; key++ {
		keys[s.manager.Slots().Slot(string(key))] = string(key)
	}
	for slot := range keys {
		s.terms[slot] = make(chan *leaderelect.Leadership, 1)
	}
	s.fakePart = fakePart{name: "shared", events: &looptest.Log[string]{}, run: func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				s.working.Wait()
				return nil
			case slot := <-s.slots:
				ctx, done, ok := s.manager.Slots().Begin(ctx, keys[slot])
				assert.True(t, ok)
				l, _ := leaderelect.FromContext(ctx)
				s.terms[slot] <- l
				s.working.Go(func() {
					defer done()
					work(ctx, slot)
				})
			}
		}
	}}
	require.NoError(t, s.manager.Add(s))
	s.Running = looptest.Start(t, s.manager.Run)
	return s
}

// lose takes the leases of the given leaderships away. It returns when the context of their work has ended.
func (s *sharedWork) lose(leaderships ...*leaderelect.Leadership) {
	cut(s.store, true)
	for _, l := range leaderships {
		<-l.Context().Done()
	}
	synctest.Wait()
}

// overrun has the manager look for work that goes on, and returns how long that takes.
func (s *sharedWork) overrun(l *leaderelect.Leadership) time.Duration {
	began := time.Now()
	s.manager.Overrun(l)
	return time.Since(began)
}

// As after a suspend: the work was stopped only now.
func TestSlotWorkHasGracePeriodBeforeProcessExits(t *testing.T) {
	for lasts, ends := range map[time.Duration]bool{900 * time.Millisecond: false, 1100 * time.Millisecond: true} {
		bubble(t, lasts.String(), func(t *testing.T) {
			s := newSharedWork(t, shard.Config{Slots: 1}, func(ctx context.Context, _ int) {
				<-ctx.Done()
				time.Sleep(lasts)
			})
			l := <-s.terms[0]
			s.lose(l)
			assert.Equal(t, min(lasts, time.Second), s.overrun(l))
			assert.Equal(t, ends, s.exits.Load() == 1)
			require.NoError(t, s.Stop())
		})
	}
}

func TestSlotWorkHasGracePeriodDespiteShorterStepDown(t *testing.T) {
	for lasts, exits := range map[time.Duration]int64{900 * time.Millisecond: 0, 1100 * time.Millisecond: 1} {
		bubble(t, lasts.String(), func(t *testing.T) {
			cfg := shard.Config{Slots: 2}
			cfg.Lease.StepDownTimeout = 100 * time.Millisecond
			s := newSharedWork(t, cfg, func(ctx context.Context, slot int) {
				<-ctx.Done()
				if slot == 1 {
					time.Sleep(lasts)
				}
			})
			s.lose(<-s.terms[0], <-s.terms[1])
			time.Sleep(5 * time.Second)
			assert.Equal(t, exits, s.exits.Load())
			require.NoError(t, s.Stop())
		})
	}
}

func TestSlotGracePeriodStartsWhenWorkIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, release := stuck(t)
		s := newSharedWork(t, shard.Config{Slots: 1}, func(ctx context.Context, _ int) { _ = run(ctx) })
		l := <-s.terms[0]
		s.lose(l)
		time.Sleep(600 * time.Millisecond)
		assert.Equal(t, 400*time.Millisecond, s.overrun(l))
		assert.EqualValues(t, 1, s.exits.Load())
		time.Sleep(time.Second)
		assert.Zero(t, s.overrun(l))
		assert.EqualValues(t, 2, s.exits.Load())
		release()
		require.NoError(t, s.Stop())
	})
}

// As after a suspend, when the work has ended before the manager checks.
func TestProcessContinuesWhenNoSlotWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, release := stuck(t)
		var revoked atomic.Int64
		cfg := shard.Config{Slots: 2, OnRevoked: func(slot int, cause error) {
			assert.ErrorIs(t, cause, leaderelect.ErrLeaseExpired)
			revoked.Add(int64(slot) + 1)
		}}
		s := newSharedWork(t, cfg, func(ctx context.Context, slot int) {
			<-ctx.Done()
			if slot == 1 {
				_ = run(ctx)
			}
		})
		ended, goesOn := <-s.terms[0], <-s.terms[1]
		s.lose(ended, goesOn)
		assert.EqualValues(t, 1, revoked.Load(), "OnRevoked of the program is called")
		assert.Zero(t, s.overrun(ended))
		assert.Zero(t, s.exits.Load(), "the work in the other slot is independent")
		s.overrun(goesOn)
		assert.EqualValues(t, 1, s.exits.Load())
		release()
		require.NoError(t, s.Stop())
		assert.EqualValues(t, 1+2, revoked.Load())
	})
}

// Only OnRevoked is left of a slot, and it may still act.
func TestProcessExitsWhenOnRevokedHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, release := stuck(t)
		cfg := shard.Config{Slots: 1, OnRevoked: func(int, error) { _ = run(nil) }}
		s := newSharedWork(t, cfg, func(ctx context.Context, _ int) { <-ctx.Done() })
		l := <-s.terms[0]
		s.lose(l)
		assert.Equal(t, time.Second, s.overrun(l))
		assert.EqualValues(t, 1, s.exits.Load())
		release()
		require.NoError(t, s.Stop())
	})
}
