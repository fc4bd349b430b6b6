package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

func TestClosedChannelWinsOverTimeout(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for range 100 { // of two events at the same time, select takes either
		if !lease.ClosedWithin(closed, 0) {
			t.Fatal("lease.ClosedWithin(closed, 0) = false, want true")
		}
	}
	if lease.ClosedWithin(make(chan struct{}), 0) {
		t.Fatal("lease.ClosedWithin(make(chan struct{}), 0) = true, want false")
	}
}

func TestHangingCallsDelayNobodyAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls lease.Calls
		release := make(chan struct{})
		var running atomic.Int64
		for range 10 {
			begin := time.Now()
			_, err := lease.Do(t.Context(), &calls, time.Second, func(context.Context, string) (int, error) {
				running.Add(1)
				<-release // whatever the context says
				return 1, nil
			}, "")
			if err == nil {
				t.Fatal("no error")
			}
			if got := time.Since(begin); got > time.Second {
				t.Fatalf("time.Since(begin) = %v, want at most %v", got, time.Second)
			}
		}
		if got := running.Load(); got != 8 {
			t.Fatalf("running.Load() = %d, want 8", got)
		}
		if got := calls.Wait(time.Second); got != 8 {
			t.Fatalf("calls.Wait(time.Second) = %d, want 8", got)
		}
		close(release)
		if got := calls.Wait(time.Second); got != 0 {
			t.Fatalf("calls.Wait(time.Second) = %d, want 0", got)
		}
		n, err := lease.Do(t.Context(), &calls, time.Second, func(context.Context, string) (int, error) { return 2, nil }, "")
		if err != nil {
			t.Fatal(err)
		}
		if n != 2 {
			t.Fatalf("n = %d, want 2", n)
		}
	})
}

func TestPanickingOrExitingCallIsAnError(t *testing.T) {
	var calls lease.Calls
	_, err := lease.Do(t.Context(), &calls, time.Hour, func(context.Context, string) (int, error) { panic("boom") }, "")
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Fatalf("error = %v, want an error with %q", err, "boom")
	}
	_, err = lease.Do(t.Context(), &calls, time.Hour, func(context.Context, string) (int, error) { runtime.Goexit(); return 1, nil }, "")
	if err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Fatalf("error = %v, want an error with %q", err, "Goexit")
	}
	if got := calls.Wait(0); got != 0 {
		t.Fatalf("calls.Wait(0) = %d, want 0", got)
	}
	cause := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err = lease.Do(ctx, &calls, time.Hour, func(ctx context.Context, _ string) (int, error) { <-ctx.Done(); return 0, nil }, "")
	if err != nil {
		if errors.Is(err, cause) {
			t.Fatalf("err = %v, want another error than %v: the cause of a caller is not an answer of the store", err, cause)
		}
	}
}

func TestForeignRecordIsUnreadable(t *testing.T) {
	for _, value := range []string{"", "{", "null", `{"holder":"x"}`, `{"holder":"","incarnation":"i"}`, `{"holder":"x","incarnation":"i","released":true}`} {
		v := lease.ViewOf([]byte(value), "v", 7, 0, time.Now())
		if v.Readable {
			t.Errorf("%s: v.Readable = true, want false", value)
		}
		if v.Held() {
			t.Errorf("%s: v.Held() = true, want false", value)
		}
		if diff := cmp.Diff(lease.Record{Term: 7}, v.Record); diff != "" {
			t.Errorf("%s: v.Record mismatch (-want +got):\n%s", value, diff)
		}
	}
	v := lease.ViewOf([]byte(`{"holder":"x","incarnation":"i","term":3,"leaseMillis":-1}`), "v", 2, 0, time.Now())
	if !v.Held() {
		t.Error("v.Held() = false, want true")
	}
	if v.Record.Term != 3 {
		t.Errorf("v.Record.Term = %d, want 3", v.Record.Term)
	}
	if got := v.Record.Lease(); got != 0 {
		t.Errorf("v.Record.Lease() = %v, want 0", got)
	}
}

func TestKernelClocksAreReadTogether(t *testing.T) {
	least, most := lease.Asleep()
	if least > most {
		t.Errorf("least = %v, want at most %v", least, most)
	}
	if most < 0 {
		t.Errorf("most = %v, want at least 0", most)
	}
	again, _ := lease.Asleep()
	if d := again - most; d.Abs() > time.Second {
		t.Errorf("again = %v, want about %v: the machine was not suspended", again, most)
	}
}

func TestWaitersAreNotifiedAfterLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls lease.Calls
		began := time.Now()
		for _, d := range []time.Duration{time.Second, time.Minute} {
			go func() {
				_, _ = lease.Do(t.Context(), &calls, time.Hour, func(context.Context, string) (int, error) {
					time.Sleep(d)
					return 0, nil
				}, "")
			}()
		}
		synctest.Wait()
		waited := make(chan time.Duration)
		for range 3 {
			go func() {
				if got := calls.Wait(time.Hour); got != 0 {
					t.Errorf("calls.Wait(time.Hour) = %d, want 0", got)
				}
				waited <- time.Since(began)
			}()
		}
		for range 3 {
			if got := <-waited; got != time.Minute {
				t.Fatalf("<-waited = %v, want %v", got, time.Minute)
			}
		}
		if got := calls.Wait(0); got != 0 {
			t.Errorf("calls.Wait(0) = %d, want 0: none is left to wait for", got)
		}
	})
}

func TestWarningsAreRateLimitedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := lease.NewWarnings(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
					return slog.Attr{}
				}
				return a
			},
		})))
		down := errors.New("down")
		warn := func(d time.Duration, message string) {
			time.Sleep(d)
			w.Warn(t.Context(), message, down)
		}
		warn(0, "read")
		warn(10*time.Second-1, "read") // skipped
		warn(0, "write")               // another message
		warn(1, "read")
		warn(10*time.Second, "read") // none was skipped
		for range 3 {
			warn(time.Second, "read")
		}
		warn(7*time.Second, "read")
		if diff := cmp.Diff([]string{
			"msg=read error=down", "msg=write error=down", "msg=read error=down skipped=1", "msg=read error=down",
			"msg=read error=down skipped=3",
		}, strings.Split(strings.TrimSpace(log.String()), "\n")); diff != "" {
			t.Errorf("strings.Split(strings.TrimSpace(log.String()), \"\\n\") mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestOlderRecordLowersNothing(t *testing.T) {
	newest := lease.Record{Term: 3, Renewal: 7, Incarnation: "a"}
	next := lease.Record{Term: 4, Renewal: 1, Incarnation: "b"}
	for _, older := range []lease.Record{{Term: 2, Renewal: 9}, {Term: 3, Renewal: 6, Incarnation: "a"}, {}} {
		var seen lease.Seen
		seen.Raise(newest)
		seen.Raise(older)
		if seen.Term != 3 {
			t.Errorf("seen.Term = %d, want 3", seen.Term)
		}
		if !seen.Regressed(lease.View{Record: older}) {
			t.Error("seen.Regressed(lease.View{Record: older}) = false, want true")
		}
		if seen.Regressed(lease.View{Record: newest}) {
			t.Error("seen.Regressed(lease.View{Record: newest}) = true, want false")
		}
		seen.Raise(next)
		if seen.Term != 4 {
			t.Errorf("seen.Term = %d, want 4", seen.Term)
		}
		if !seen.Regressed(lease.View{Record: newest}) {
			t.Error("seen.Regressed(lease.View{Record: newest}) = false, want true")
		}
	}
}

// A part may end the context with an error of a lease that it uses itself. To the elector, that is no reply.
func TestCauseOfContextIsNoReplyOfStore(t *testing.T) {
	changed := errors.New("record has changed")
	ctx, end := context.WithCancelCause(t.Context())
	end(fmt.Errorf("part: %w", changed))
	for range 30_000 { // the reply and the end of the context race
		var calls lease.Calls
		_, err := lease.Do(ctx, &calls, time.Minute, func(ctx context.Context, _ string) (int, error) {
			return 0, fmt.Errorf("store: %w", context.Cause(ctx))
		}, "")
		if err == nil || errors.Is(err, changed) || !strings.Contains(err.Error(), "part: record has changed") {
			t.Fatalf("Do returns error %v, want one that has only the text of the cause", err)
		}
	}
}

func TestReplyOfStoreIsReturnedAsItIs(t *testing.T) {
	changed := errors.New("record has changed")
	var calls lease.Calls
	_, err := lease.Do(t.Context(), &calls, time.Minute, func(context.Context, string) (int, error) { return 0, changed }, "")
	if err != changed {
		t.Fatalf("Do returns error %v, want %v", err, changed)
	}
}
