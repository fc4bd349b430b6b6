package informer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

func TestWaitIdleReturnsAfterHandlerCatchesUp(t *testing.T) {
	for _, every := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			src.Put(site{Name: "a"})
			in := must(informer.New(src, nameOf, informer.Config{}))
			var told atomic.Int64
			count := func() { time.Sleep(time.Second); told.Add(1) }
			reg, err := in.AddHandler(informer.Handler[string, site]{
				EveryEvent: every, OnAdd: func(site, bool) { count() }, OnUpdate: func(_, _ site) { count() },
			})
			require.NoError(t, err)
			idle := make(chan error, 1)
			go func() { idle <- reg.WaitIdle(context.Background()) }()
			time.Sleep(time.Minute)
			assert.Empty(t, idle, "the cache has not synced")
			sitetest.Start(t, in)
			require.NoError(t, <-idle)
			assert.EqualValues(t, 1, told.Load())

			for _, name := range []string{"b", "c", "d"} {
				src.Put(site{Name: name})
			}
			require.NoError(t, in.WaitForVersion(t.Context(), 4))
			began := time.Now()
			go func() {
				for range 20 { // more keeps coming, and b again and again
					time.Sleep(100 * time.Millisecond)
					src.Put(site{Name: "b"})
					src.Put(site{Name: time.Since(began).String()})
				}
			}()
			require.NoError(t, reg.WaitIdle(t.Context()))
			assert.Equal(t, 3*time.Second, time.Since(began), "later events do not delay it")
			assert.EqualValues(t, 4, told.Load())
			time.Sleep(time.Hour)
			began = time.Now()
			require.NoError(t, reg.WaitIdle(t.Context()), "nothing is pending")
			assert.Zero(t, time.Since(began))
			assert.Zero(t, informer.Asks(in))
		})
	}
}

func TestWaitIdleReturnsWhenHandlerIsDone(t *testing.T) {
	blocked := func(t *testing.T) (in *informer.Informer[string, site], reg *informer.Registration) {
		src := newSource()
		src.Put(site{Name: "a"})
		in = must(informer.New(src, nameOf, informer.Config{}))
		gate := make(chan struct{})
		reg, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd: func(site, bool) {}, OnUpdate: func(_, _ site) { <-gate },
		})
		require.NoError(t, err)
		sitetest.Start(t, in)
		t.Cleanup(func() { close(gate) }) // before Run ends
		require.NoError(t, reg.WaitIdle(t.Context()))
		src.Put(site{Name: "a"})
		require.NoError(t, in.WaitForVersion(t.Context(), 2))
		return in, reg
	}
	t.Run("its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in, reg := blocked(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := reg.WaitIdle(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Contains(t, err.Error(), "handler 1 to be idle")
			assert.Zero(t, informer.Asks(in), "nothing is left of it")
		})
	})
	t.Run("it is removed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in, reg := blocked(t)
			idle := make(chan error, 1)
			go func() { idle <- reg.WaitIdle(context.Background()) }()
			synctest.Wait()
			reg.Remove()
			require.ErrorIs(t, <-idle, informer.ErrEnded)
			require.ErrorIs(t, reg.WaitIdle(t.Context()), informer.ErrEnded)
			assert.Zero(t, informer.Asks(in))
		})
	})
	t.Run("Run ends before it has joined", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			in := must(informer.New(src, nameOf, informer.Config{}))
			reg, err := in.AddHandler(informer.Handler[string, site]{})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, in.Run(ctx))
			require.ErrorIs(t, reg.WaitIdle(t.Context()), informer.ErrEnded)
		})
	})
}

func TestWaitIdleReturnsBetweenSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		reg, err := in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) {}})
		require.NoError(t, err)
		steps, err := in.Steps(t.Context())
		require.NoError(t, err)
		defer steps.Stop()
		idle := make(chan error, 1)
		go func() { idle <- reg.WaitIdle(context.Background()) }()
		steps.Read(t.Context())
		steps.Apply()
		synctest.Wait()
		assert.Empty(t, idle, "the handler has not been called")
		assert.True(t, steps.Deliver(reg))
		synctest.Wait()
		steps.Apply()
		require.NoError(t, <-idle)

		src.Put(site{Name: "b"})
		for in.Version() < 2 {
			steps.Read(t.Context())
			steps.Apply()
		}
		go func() { idle <- reg.WaitIdle(context.Background()) }()
		synctest.Wait()
		steps.Apply()
		synctest.Wait()
		assert.Empty(t, idle)
		assert.True(t, steps.Deliver(reg))
		require.NoError(t, <-idle)
	})
}
