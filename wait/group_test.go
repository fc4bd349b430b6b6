package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/wait"
)

func TestWaitReturnsAfterTheLastFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g wait.Group
		var ended atomic.Int32
		for i := range 3 {
			g.Start(t.Context(), func(context.Context) error {
				time.Sleep(time.Duration(i) * time.Second)
				ended.Add(1)
				return nil
			})
		}
		start := time.Now()
		require.NoError(t, g.Wait())
		assert.Equal(t, 2*time.Second, time.Since(start))
		assert.EqualValues(t, 3, ended.Load())
	})
}

func TestWaitJoinsErrorsInStartOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g wait.Group
		for i := range 5 {
			g.Start(t.Context(), func(context.Context) error {
				time.Sleep(time.Duration(5-i) * time.Second) // the last one fails first
				if i == 2 {
					return nil
				}
				return fmt.Errorf("function %d: %w", i, io.EOF)
			})
		}
		err := g.Wait()
		require.EqualError(t, err, "function 0: EOF\nfunction 1: EOF\nfunction 3: EOF\nfunction 4: EOF")
		assert.ErrorIs(t, err, io.EOF)
		assert.EqualError(t, g.Wait(), err.Error(), "Wait may be called again")
	})
}

func TestPanicInGroupDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g wait.Group
		finished := false
		g.Start(t.Context(), func(context.Context) error { return explode("boom") })
		g.Start(t.Context(), func(ctx context.Context) error {
			time.Sleep(time.Second)
			finished = ctx.Err() == nil
			return nil
		})
		var p *wait.PanicError
		require.ErrorAs(t, g.Wait(), &p)
		assert.Contains(t, string(p.Stack), "explode")
		assert.True(t, finished)
	})
}

func TestGoexitInGroupIsAnError(t *testing.T) {
	var g wait.Group
	g.Start(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
	assert.ErrorContains(t, g.Wait(), "Goexit")
}

func TestWaitOnEmptyGroupReturnsNil(t *testing.T) {
	var g wait.Group
	g.Start(t.Context(), func(context.Context) error { return nil })
	g.Start(t.Context(), func(context.Context) error { return errors.Join(nil, nil) })
	assert.True(t, g.Wait() == nil)
	assert.True(t, new(wait.Group).Wait() == nil)
}

func TestCallAndGroupRunFunctionEvenIfContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	runs := 0
	f := func(ctx context.Context) error { runs++; return ctx.Err() }
	assert.Equal(t, context.Canceled, wait.Call(ctx, f))
	var g wait.Group
	g.Start(ctx, f)
	assert.ErrorIs(t, g.Wait(), context.Canceled)
	assert.Equal(t, 2, runs)
}
