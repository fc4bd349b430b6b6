package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

func TestClosedChannelWinsOverTimeout(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for range 100 { // of two events at the same time, select takes either
		require.True(t, lease.ClosedWithin(closed, 0))
	}
	require.False(t, lease.ClosedWithin(make(chan struct{}), 0))
}

func TestHangingCallsDelayNobodyAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls lease.Calls
		release := make(chan struct{})
		var running atomic.Int64
		for range 10 {
			begin := time.Now()
			_, err := lease.Do(t.Context(), &calls, time.Second, func(context.Context) (int, error) {
				running.Add(1)
				<-release // whatever the context says
				return 1, nil
			})
			require.Error(t, err)
			require.LessOrEqual(t, time.Since(begin), time.Second)
		}
		require.Equal(t, int64(8), running.Load())
		require.Equal(t, 8, calls.Wait(time.Second))
		close(release)
		require.Zero(t, calls.Wait(time.Second))
		n, err := lease.Do(t.Context(), &calls, time.Second, func(context.Context) (int, error) { return 2, nil })
		require.NoError(t, err)
		require.Equal(t, 2, n)
	})
}

func TestPanickingOrExitingCallIsAnError(t *testing.T) {
	var calls lease.Calls
	_, err := lease.Do(t.Context(), &calls, time.Hour, func(context.Context) (int, error) { panic("boom") })
	require.ErrorContains(t, err, "boom")
	_, err = lease.Do(t.Context(), &calls, time.Hour, func(context.Context) (int, error) { runtime.Goexit(); return 1, nil })
	require.ErrorContains(t, err, "Goexit")
	require.Zero(t, calls.Wait(0))
	cause := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err = lease.Do(ctx, &calls, time.Hour, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, nil })
	if err != nil {
		require.NotErrorIs(t, err, cause, "the cause of a caller is not an answer of the store")
	}
}

func TestForeignRecordIsUnreadable(t *testing.T) {
	for _, value := range []string{"", "{", "null", `{"holder":"x"}`, `{"holder":"","incarnation":"i"}`, `{"holder":"x","incarnation":"i","released":true}`} {
		v := lease.ViewOf([]byte(value), "v", 7, 0, time.Now())
		assert.False(t, v.Readable, value)
		assert.False(t, v.Held(), value)
		assert.Equal(t, lease.Record{Term: 7}, v.Record, value)
	}
	v := lease.ViewOf([]byte(`{"holder":"x","incarnation":"i","term":3,"leaseMillis":-1}`), "v", 2, 0, time.Now())
	assert.True(t, v.Held())
	assert.Equal(t, uint64(3), v.Record.Term)
	assert.Zero(t, v.Record.Lease())
}

func TestKernelClocksAreReadTogether(t *testing.T) {
	least, most := lease.Asleep()
	assert.LessOrEqual(t, least, most)
	assert.GreaterOrEqual(t, most, time.Duration(0))
	again, _ := lease.Asleep()
	assert.InDelta(t, most, again, float64(time.Second), "the machine was not suspended")
}

func TestWaitersAreNotifiedAfterLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls lease.Calls
		began := time.Now()
		for _, d := range []time.Duration{time.Second, time.Minute} {
			go func() {
				_, _ = lease.Do(t.Context(), &calls, time.Hour, func(context.Context) (int, error) {
					time.Sleep(d)
					return 0, nil
				})
			}()
		}
		synctest.Wait()
		waited := make(chan time.Duration)
		for range 3 {
			go func() {
				assert.Zero(t, calls.Wait(time.Hour))
				waited <- time.Since(began)
			}()
		}
		for range 3 {
			require.Equal(t, time.Minute, <-waited)
		}
		assert.Zero(t, calls.Wait(0), "none is left to wait for")
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
		assert.Equal(t, []string{
			"msg=read error=down", "msg=write error=down", "msg=read error=down skipped=1", "msg=read error=down",
			"msg=read error=down skipped=3",
		}, strings.Split(strings.TrimSpace(log.String()), "\n"))
	})
}

func TestOlderRecordLowersNothing(t *testing.T) {
	newest := lease.Record{Term: 3, Renewal: 7, Incarnation: "a"}
	next := lease.Record{Term: 4, Renewal: 1, Incarnation: "b"}
	for _, older := range []lease.Record{{Term: 2, Renewal: 9}, {Term: 3, Renewal: 6, Incarnation: "a"}, {}} {
		var seen lease.Seen
		seen.Raise(newest)
		seen.Raise(older)
		assert.EqualValues(t, 3, seen.Term)
		assert.True(t, seen.Regressed(lease.View{Record: older}))
		assert.False(t, seen.Regressed(lease.View{Record: newest}))
		seen.Raise(next)
		assert.EqualValues(t, 4, seen.Term)
		assert.True(t, seen.Regressed(lease.View{Record: newest}))
	}
}
