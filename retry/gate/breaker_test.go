package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/retry/gate"
)

var errDown = errors.New("down")

func newBreaker(t *testing.T, cfg gate.BreakerConfig) *gate.Breaker {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	b, err := gate.NewBreaker(cfg)
	require.NoError(t, err)
	return b
}

func isOpen(b *gate.Breaker) bool {
	_, open := b.OpenUntil()
	return open
}

func TestBreakerConfigOutOfBoundsIsRejected(t *testing.T) {
	_, err := gate.NewBreaker(gate.BreakerConfig{Failures: -1, OpenFor: -1})
	require.EqualError(t, err, "gate: new breaker: BreakerConfig.Failures is -1, must not be negative; BreakerConfig.OpenFor is -1ns, must not be negative")
}

func TestZeroBreakerConfigHasDefaultsAndLogsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		relative := func(_ []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == slog.TimeKey:
				return slog.Attr{}
			case a.Value.Kind() == slog.KindTime:
				return slog.Duration(a.Key, time.Until(a.Value.Time()))
			}
			return a
		}
		b, err := gate.NewBreaker(gate.BreakerConfig{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: relative}))})
		require.NoError(t, err)
		for range 5 {
			assert.False(t, isOpen(b))
			require.Equal(t, errDown, b.Do(t.Context(), func(context.Context) error { return errDown }))
		}
		assert.True(t, isOpen(b))
		err = b.Do(t.Context(), func(context.Context) error { return nil })
		require.ErrorContains(t, err, `gate: the circuit breaker "breaker" is open`)
		time.Sleep(10 * time.Second)
		require.NoError(t, b.Do(t.Context(), func(context.Context) error { return nil }))
		require.NoError(t, b.Do(t.Context(), func(context.Context) error { return nil }))
		assert.Equal(t, "level=WARN msg=\"circuit breaker opened\" breaker=breaker until=10s error=down\n"+
			"level=INFO msg=\"circuit breaker closed\" breaker=breaker\n", out.String())
	})
}

// The table shows how each error counts, while the breaker is closed and during a trial.
func TestWhatCountsAsAFailure(t *testing.T) {
	for name, test := range map[string]struct {
		call                      func(ctx context.Context) error
		success, answered, failed bool
	}{
		"nil":            {call: func(context.Context) error { return nil }, success: true},
		"an error":       {call: func(context.Context) error { return errDown }, failed: true},
		"not yet":        {call: func(context.Context) error { return retry.NotYet(errDown, time.Hour) }, answered: true},
		"permanent":      {call: func(context.Context) error { return retry.Permanent(errDown) }, answered: true},
		"a limit within": {call: func(context.Context) error { return refusal(t) }},
		"an open breaker within": {call: func(ctx context.Context) error {
			b := newBreaker(t, gate.BreakerConfig{Failures: 1})
			_ = b.Do(ctx, func(context.Context) error { return errDown })
			return b.Do(ctx, func(context.Context) error { panic("not refused") })
		}},
		"canceled": {call: func(ctx context.Context) error {
			ctx.Value(cancelKey{}).(context.CancelFunc)()
			return retry.Permanent(errDown)
		}},
		"both":      {call: func(context.Context) error { return errors.Join(errDown, retry.NotYet(errDown, 0)) }, failed: true},
		"a panic":   {call: func(context.Context) error { panic(errDown) }, failed: true},
		"Goexit":    {call: func(context.Context) error { runtime.Goexit(); return nil }, failed: true},
		"a timeout": {call: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, failed: true},
	} {
		for _, trial := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBreaker(t, gate.BreakerConfig{Failures: 2, OpenFor: time.Minute})
					fail := func(context.Context) error { return errDown }
					_ = b.Do(t.Context(), fail)
					if trial {
						_ = b.Do(t.Context(), fail)
						require.True(t, isOpen(b))
						time.Sleep(time.Minute)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					ctx = context.WithValue(ctx, cancelKey{}, cancel)
					done := make(chan struct{})
					go func() { // because of the Goexit
						defer close(done)
						defer func() { _ = recover() }()
						_ = b.Do(ctx, test.call)
					}()
					<-done
					b.CheckInvariants(t)
					until, open := b.OpenUntil()
					switch {
					case test.failed:
						assert.True(t, open)
						assert.Equal(t, time.Minute, time.Until(until))
					case test.success:
						assert.False(t, open)
						_ = b.Do(t.Context(), fail)
						assert.False(t, isOpen(b), "the streak was broken")
					case trial && test.answered:
						assert.False(t, open, "the service is back")
					case trial:
						assert.True(t, open, "another call has to decide")
						require.NoError(t, b.Do(t.Context(), func(context.Context) error { return nil }))
						assert.False(t, isOpen(b))
					default:
						_ = b.Do(t.Context(), fail)
						assert.True(t, isOpen(b), "the streak was not broken")
					}
				})
			})
		}
	}
}

// cancelKey is the key of the function that cancels a call, in its context.
type cancelKey struct{}

// If each trial is refused for a reason of its own object, the service has answered, so the breaker must close. Otherwise it would stay
// half-open, and refuse the calls for all other objects.
func TestServiceThatRefusesEveryTrialIsBack(t *testing.T) {
	for name, answer := range map[string]error{"permanent": retry.Permanent(errDown), "not yet": retry.NotYet(errDown, time.Second), "not counted": errDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := true
				cfg := gate.BreakerConfig{Failures: 1, OpenFor: time.Second}
				if name == "not counted" {
					cfg.Counts = func(error) bool { return down }
				}
				b := newBreaker(t, cfg)
				_ = b.Do(t.Context(), func(context.Context) error { return errDown })
				down = false
				time.Sleep(time.Second)
				require.ErrorIs(t, b.Do(t.Context(), func(context.Context) error { return answer }), errDown)
				inFlight := make(chan struct{})
				go func() { _ = b.Do(t.Context(), func(context.Context) error { <-inFlight; return nil }) }()
				synctest.Wait()
				called := false
				require.NoError(t, b.Do(t.Context(), func(context.Context) error { called = true; return nil }))
				assert.True(t, called, "concurrently")
				close(inFlight)
			})
		})
	}
}

func TestPanickingCountsFuncReleasesTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := false
		b := newBreaker(t, gate.BreakerConfig{Failures: 1, OpenFor: time.Second, Counts: func(error) bool {
			if bad {
				panic("oh")
			}
			return true
		}})
		_ = b.Do(t.Context(), func(context.Context) error { return errDown })
		time.Sleep(time.Second)
		bad = true
		assert.Panics(t, func() { _ = b.Do(t.Context(), func(context.Context) error { return errDown }) })
		require.NoError(t, b.Do(t.Context(), func(context.Context) error { return nil }))
		assert.False(t, isOpen(b))
	})
}

func TestRejectedCallersAreSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, gate.BreakerConfig{Failures: 1, OpenFor: 10 * time.Second})
		_ = b.Do(t.Context(), func(context.Context) error { return errDown })
		var slots [10]int
		for i := range 1000 {
			err := b.Do(t.Context(), func(context.Context) error { t.Error("called"); return nil })
			require.True(t, retry.IsNotYet(err))
			d, _ := retry.Delay(err)
			if i == 0 {
				assert.Equal(t, 10*time.Second, d, "the first one makes the trial")
			}
			require.GreaterOrEqual(t, d, 10*time.Second)
			require.Less(t, d, 12*time.Second)
			slots[(d-10*time.Second)/(200*time.Millisecond)]++
		}
		for _, n := range slots {
			assert.InDelta(t, 100, n, 5)
		}
		time.Sleep(10 * time.Second)
		_ = b.Do(t.Context(), func(context.Context) error { return errDown })
		d, _ := retry.Delay(b.Do(t.Context(), func(context.Context) error { return nil }))
		assert.Equal(t, 10*time.Second, d, "one comes at once after each period")
	})
}

func TestBreakerThatStaysOpenForeverRefusesEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, gate.BreakerConfig{Failures: 1, OpenFor: math.MaxInt64})
		_ = b.Do(t.Context(), func(context.Context) error { return errDown })
		for range 10 {
			err := b.Do(t.Context(), func(context.Context) error { t.Error("called"); return nil })
			d, _ := retry.Delay(err)
			assert.Equal(t, time.Duration(math.MaxInt64), d)
		}
	})
}

func TestCallDuringTrialRetriesSoon(t *testing.T) {
	for openFor, want := range map[time.Duration]time.Duration{time.Minute: time.Second, time.Second / 10: time.Second / 10} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, gate.BreakerConfig{Failures: 1, OpenFor: openFor})
			_ = b.Do(t.Context(), func(context.Context) error { return errDown })
			time.Sleep(openFor)
			require.NoError(t, b.Do(t.Context(), func(ctx context.Context) error {
				d, _ := retry.Delay(b.Do(ctx, func(context.Context) error { t.Error("two trials"); return nil }))
				assert.Equal(t, want, d)
				return nil
			}))
		})
	}
}

// A call without a timeout, to a server that never replies.
func TestTrialThatNeverReturnsDoesNotKeepBreakerOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, gate.BreakerConfig{Failures: 1, OpenFor: time.Minute})
		_ = b.Do(t.Context(), func(context.Context) error { return errDown })
		time.Sleep(time.Minute)
		replies := make(chan error)
		go func() { _ = b.Do(t.Context(), func(context.Context) error { return <-replies }) }() // ends with the reply
		synctest.Wait()
		time.Sleep(time.Minute - 1)
		assert.True(t, retry.IsNotYet(b.Do(t.Context(), func(context.Context) error { t.Error("two trials"); return nil })))
		time.Sleep(time.Nanosecond)
		require.NoError(t, b.Do(t.Context(), func(context.Context) error { return nil }))
		assert.False(t, isOpen(b))
		replies <- errDown
		synctest.Wait()
		assert.False(t, isOpen(b), "the first trial no longer counts")
	})
}

func TestReturnOfOldTrialDoesNotAdmitCallDuringNextTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, gate.BreakerConfig{Failures: 1, OpenFor: time.Minute})
		_ = b.Do(t.Context(), func(context.Context) error { return errDown })
		first, second := make(chan error), make(chan error)
		for _, replies := range []chan error{first, second} { // both end with their reply
			time.Sleep(time.Minute)
			go func() { _ = b.Do(t.Context(), func(context.Context) error { return <-replies }) }()
			synctest.Wait()
		}
		first <- refusal(t) // neither a success nor a failure
		synctest.Wait()
		b.CheckInvariants(t)
		assert.True(t, retry.IsNotYet(b.Do(t.Context(), func(context.Context) error { t.Error("two trials"); return nil })))
		second <- refusal(t)
		synctest.Wait()
		b.CheckInvariants(t)
		require.NoError(t, b.Do(t.Context(), func(context.Context) error { return nil }), "no trial is in flight")
		assert.False(t, isOpen(b))
	})
}

// refusal returns the error of a call that a limiter has not let through.
func refusal(t *testing.T) error {
	l := gate.NewLimiter(1, 1)
	call := func(context.Context) error { return nil }
	require.NoError(t, l.Do(t.Context(), call))
	return fmt.Errorf("get: %w", l.Do(t.Context(), call))
}

// The model is as simple as the diagram in the documentation.
func TestBreakerFollowsStateDiagram(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			b := newBreaker(t, gate.BreakerConfig{Failures: 3, OpenFor: 10 * time.Second})
			type call struct {
				state int // of the breaker when it began: they are numbered
				ends  chan error
				done  chan error
			}
			var calls []call
			state, row := 0, 0
			var openUntil, trialUntil time.Time
			for range 200 {
				switch open := !openUntil.IsZero(); {
				case r.IntN(4) == 0:
					time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
				case r.IntN(2) == 0 || len(calls) == 0:
					c := call{state, make(chan error), make(chan error, 1)}
					go func() { c.done <- b.Do(t.Context(), func(context.Context) error { return <-c.ends }) }()
					synctest.Wait()
					refused := open && (time.Until(openUntil) > 0 || time.Until(trialUntil) > 0)
					select {
					case err := <-c.done:
						require.True(t, refused, "it was rejected")
						require.True(t, retry.IsNotYet(err))
					default:
						require.False(t, refused, "it was let through")
						if open {
							trialUntil = time.Now().Add(10 * time.Second)
						}
						calls = append(calls, c)
					}
				default:
					i := r.IntN(len(calls))
					c := calls[i]
					calls = append(calls[:i], calls[i+1:]...)
					answer, unknown := retry.Permanent(errDown), refusal(t)
					err := []error{nil, errDown, errDown, answer, unknown}[r.IntN(5)]
					c.ends <- err
					synctest.Wait()
					if c.state != state {
						break // it began before the last change
					}
					switch {
					case (err == nil || err == answer) && open:
						state, row, trialUntil, openUntil = state+1, 0, time.Time{}, time.Time{}
					case err == nil:
						row = 0
					case err != errDown:
						trialUntil = time.Time{}
					default:
						if row++; open || row == 3 {
							state, row, trialUntil, openUntil = state+1, 0, time.Time{}, time.Now().Add(10*time.Second)
						}
					}
				}
				until, open := b.OpenUntil()
				require.Equal(t, !openUntil.IsZero(), open)
				require.True(t, openUntil.Equal(until))
				b.CheckInvariants(t)
			}
			for _, c := range calls {
				c.ends <- nil
			}
			synctest.Wait()
		})
	}
}
