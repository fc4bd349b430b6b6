package workqueue_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// How waits end: with a shutdown, with a context, and with both at the same time.

// dispatch takes keys with take until it is told to stop, and works on each in a goroutine of its own.
func dispatch(q *workqueue.Queue[string], take func() error) (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		for {
			if err := take(); err != nil {
				ended <- err
				return
			}
		}
	}()
	return ended
}

func TestDrainDoesNotHangWithDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		attempts := make(chan string, 9)
		ended := dispatch(q, func() error {
			key, err := next(q, context.Background())
			if err != nil {
				return err
			}
			go func() {
				attempts <- key
				time.Sleep(time.Minute)
				q.Done(key)
			}()
			return nil
		})
		q.Add("k")
		sleep(time.Second)
		q.Add("k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, q.Drain(ctx))
		require.Len(t, attempts, 2)
		synctest.Wait()
		require.ErrorIs(t, <-ended, workqueue.ErrShutDown)
	})
}

func TestNoWorkerStopsWhileAKeyIsDirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, k := range []string{"done", "canceled"} {
			q.Add(k)
			tryGet(q)
			q.Add(k)
		}
		const waiters = 3
		ended := make(chan error, waiters)
		for range waiters {
			go func() {
				for {
					k, err := next(q, t.Context())
					if err != nil {
						ended <- err
						return
					}
					q.Done(k)
				}
			}()
		}
		synctest.Wait()
		q.ShutDown()
		synctest.Wait()
		require.NoError(t, q.CheckInvariants())
		require.Empty(t, ended)
		q.Done("done")
		synctest.Wait()
		require.NoError(t, q.CheckInvariants())
		require.Empty(t, ended, "the other one is still dirty")
		require.True(t, q.Cancel("canceled"))
		for range waiters {
			require.ErrorIs(t, <-ended, workqueue.ErrShutDown)
		}
		q.Done("canceled")
		require.Equal(t, workqueue.Stats{}, q.Stats())
	})
}

// As in client-go, whose tests require it.
func TestGetReturnsShutdownWhileKeyIsDirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		q.Get()
		q.Add("k")
		told := make(chan bool, 1)
		go func() { _, shutdown := q.Get(); told <- shutdown }()
		synctest.Wait()
		q.ShutDown()
		require.True(t, <-told)
		_, shutdown := q.Get()
		require.True(t, shutdown)
		q.Done("k")
		k, shutdown := q.Get()
		require.False(t, shutdown)
		q.Done(k)
		_, shutdown = q.Get()
		require.True(t, shutdown)
	})
}

// scripted is a context that ends in the middle of a call: within is called when the call asks for the channel of its end.
type scripted struct {
	context.Context
	within func()
	ended  chan struct{}
}

func newScripted(ctx context.Context, within func()) *scripted {
	return &scripted{ctx, within, make(chan struct{})}
}

func (c *scripted) Done() <-chan struct{} {
	select {
	case <-c.ended:
	default:
		close(c.ended)
		c.within()
	}
	return c.ended
}

func (c *scripted) Err() error {
	select {
	case <-c.ended:
		return context.Canceled
	default:
		return nil
	}
}

func TestIdleWinsOverContextEnd(t *testing.T) {
	for name, wait := range map[string]func(*workqueue.Queue[string], context.Context) error{
		"WaitIdle": (*workqueue.Queue[string]).WaitIdle,
		"Drain":    (*workqueue.Queue[string]).Drain,
	} {
		t.Run(name, func(t *testing.T) {
			for range 30 { // a select among several that are ready chooses at random
				q := newQueue()
				q.Add("k")
				q.Get()
				require.NoError(t, wait(q, newScripted(t.Context(), func() { q.Done("k") })))
				q.Add("k") // it was idle in the meantime, and no longer is
				q.Get()
				if name == "WaitIdle" {
					require.NoError(t, wait(q, newScripted(t.Context(), func() { q.Done("k"); q.Add("k") })))
				}
			}
		})
	}
}

func TestDrainPrefersIdleOverReleaseOverContext(t *testing.T) {
	for range 30 {
		q := newQueue()
		q.Add("k")
		q.Get()
		require.ErrorIs(t, q.Drain(newScripted(t.Context(), q.ShutDown)), workqueue.ErrShutDown)
		require.NoError(t, q.Drain(newScripted(t.Context(), func() { q.ShutDown(); q.Done("k") })))
	}
}

// endsAfterACheck is a context that ends just after its end was asked for.
type endsAfterACheck struct {
	context.Context
	cancel context.CancelFunc
}

func (c endsAfterACheck) Err() error {
	err := c.Context.Err()
	c.cancel()
	return err
}

func TestTakeReturnsNoKeyAfterContextEnds(t *testing.T) {
	t.Run("before the call", func(t *testing.T) {
		for _, shutdown := range []bool{false, true} {
			q := newQueue()
			q.Add("k")
			if shutdown {
				q.ShutDown()
			}
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			_, err := next(q, ctx)
			require.Equal(t, cause, err)
			_, err = q.Take(ctx)
			require.Equal(t, cause, err)
			require.Equal(t, 1, q.Len())
		}
	})
	t.Run("before it looks for a key", func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := next(q, endsAfterACheck{ctx, cancel})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, q.Len())
	})
	t.Run("when it is woken", func(t *testing.T) {
		// With one processor the worker usually runs when this goroutine waits, and not before.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		late := 0 // how often the worker looked after ctx had ended
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { _, err := next(q, ctx); ended <- err }()
				synctest.Wait()
				other := make(chan string, 1)
				go func() { k, _ := next(q, t.Context()); other <- k }()
				synctest.Wait()
				q.Add("k")
				cancel()
				err := <-ended
				if err == nil { // the scheduler let the worker look before
					q.ShutDown()
					assert.Empty(t, <-other, "the worker has the key")
					return
				}
				late++
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, "k", <-other, "the wake-up is passed on")
				require.NoError(t, q.CheckInvariants())
			})
		}
		require.Positive(t, late)
	})
}
