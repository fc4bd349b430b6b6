package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
		if err := g.Wait(); err != nil {
			t.Fatalf("g.Wait(): %v", err)
		}
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("time.Since(start) = %v, want %v", got, 2*time.Second)
		}
		if got := ended.Load(); got != 3 {
			t.Errorf("ended.Load() = %v, want 3", got)
		}
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
		if got, want := fmt.Sprint(err), "function 0: EOF\nfunction 1: EOF\nfunction 3: EOF\nfunction 4: EOF"; got != want {
			t.Fatalf("err = %q, want %q", got, want)
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("err = %v, want %v", err, io.EOF)
		}
		if got, want := fmt.Sprint(g.Wait()), err.Error(); got != want {
			t.Errorf("Wait may be called again: g.Wait() = %q, want %q", got, want)
		}
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
		if err := g.Wait(); !errors.As(err, &p) {
			t.Fatalf("g.Wait() = %v, want one of type *wait.PanicError", err)
		}
		if got := string(p.Stack); !strings.Contains(got, "explode") {
			t.Errorf("string(p.Stack) = %q, want it to contain %q", got, "explode")
		}
		if !finished {
			t.Error("finished is false")
		}
	})
}

func TestGoexitInGroupIsAnError(t *testing.T) {
	var g wait.Group
	g.Start(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
	if got := fmt.Sprint(g.Wait()); !strings.Contains(got, "Goexit") {
		t.Errorf("g.Wait() = %q, want an error that contains %q", got, "Goexit")
	}
}

func TestWaitOnEmptyGroupReturnsNil(t *testing.T) {
	var g wait.Group
	g.Start(t.Context(), func(context.Context) error { return nil })
	g.Start(t.Context(), func(context.Context) error { return errors.Join(nil, nil) })
	if g.Wait() != nil {
		t.Error("g.Wait() is not nil")
	}
	if new(wait.Group).Wait() != nil {
		t.Error("new(wait.Group).Wait() is not nil")
	}
}
