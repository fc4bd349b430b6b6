package term_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// lead calls work as a leader who loses the lease 10 s later.
func lead(t *testing.T, work func(ctx context.Context)) {
	store := memlease.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: store, Key: "lock", Identity: "me", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			defer cancel()
			work(ctx)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Second, func() {
		store.Inject(memlease.Faults{Before: func(context.Context, memlease.Call) error { return errors.New("cut off") }})
	})
	if err := elector.Run(ctx); err != nil {
		t.Fatalf("elector.Run(ctx): %v", err)
	}
}

// Guarantees 1 and 2.
func TestWorkEndsWithLostLeadershipBeforeParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, func(ctx context.Context) {
			type valueKey struct{}
			work, stop := term.Context(context.WithValue(ctx, valueKey{}, "value"))
			defer stop(nil)
			child, cancel := context.WithTimeout(work, time.Hour)
			defer cancel()
			for _, stack := range looptest.Stacks(t) {
				if strings.Contains(stack, "created by context.(*cancelCtx).propagateCancel") {
					t.Errorf("stack = %q, want it without %q: no goroutine propagates the end", stack, "created by context.(*cancelCtx).propagateCancel")
				}
			}
			_, hasDeadline := work.Deadline()
			if hasDeadline {
				t.Error("hasDeadline = true, want false")
			}
			if got := work.Value(valueKey{}); got != "value" {
				t.Errorf(`work.Value(valueKey{}) = %v, want "value"`, got)
			}
			if err := term.Err(work); err != nil {
				t.Fatalf("term.Err(work): %v", err)
			}
			<-ctx.Done()
			if err := context.Cause(child); !errors.Is(err, leaderelect.ErrLeaseExpired) {
				t.Errorf("context.Cause(child) = %v, want %v", err, leaderelect.ErrLeaseExpired)
			}
		})
	})
}

// Guarantee 1.
func TestWorkContinuesAfterParentEnds(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	work, stop := term.Context(parent)
	cancel()
	if err := work.Err(); err != nil {
		t.Fatalf("work.Err(): %v", err)
	}
	if err := term.Err(work); err != nil {
		t.Fatalf("it belongs to no leadership: %v", err)
	}
	why := errors.New("why")
	stop(why)
	if got := context.Cause(work); got != why {
		t.Errorf("context.Cause(work) = %v, want %v", got, why)
	}
}

// Guarantee 3.
func TestErrReportsEndedLeadershipInDetachedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, func(ctx context.Context) {
			if err := term.Err(ctx); err != nil {
				t.Fatalf("term.Err(ctx): %v", err)
			}
			lasting := context.WithoutCancel(ctx)
			<-ctx.Done()
			if err := term.Err(lasting); !errors.Is(err, leaderelect.ErrLeaseExpired) {
				t.Errorf("term.Err(lasting) = %v, want %v", err, leaderelect.ErrLeaseExpired)
			}
		})
	})
}

func TestReleaseWaitsForStopAndPreventsLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var stopped atomic.Bool
		stop := func(cause error) {
			time.Sleep(time.Second)
			if !errors.Is(cause, context.DeadlineExceeded) {
				t.Errorf("cause = %v, want %v", cause, context.DeadlineExceeded)
			}
			stopped.Store(true)
		}
		release := term.StopWith(limit, stop)
		time.Sleep(1500 * time.Millisecond)
		release()
		if !stopped.Load() {
			t.Error("stopped.Load() = false, want true: release has waited for it")
		}

		stopped.Store(false)
		limit, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		term.StopWith(limit, stop)()
		time.Sleep(time.Minute)
		if stopped.Load() {
			t.Error("stopped.Load() = true, want false")
		}
	})
}
