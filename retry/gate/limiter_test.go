package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/retry/gate"
)

// service notes when it is called.
type service struct {
	mu sync.Mutex
	// mu guards the following.
	calls []time.Time
}

func (s *service) call(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Now())
	return nil
}

// check fails the test if the calls came faster than the limit allows, in any stretch of time.
func (s *service) check(t *testing.T, perSecond float64, burst int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.calls, time.Time.Compare)
	for i := range s.calls {
		for j := i; j < len(s.calls); j++ {
			most := float64(burst) + s.calls[j].Sub(s.calls[i]).Seconds()*perSecond
			if n := float64(j - i + 1); n > most+1e-6 { // testify would take a second for all these pairs
				t.Fatalf("calls %d to %d: %v calls, want at most %v", i, j, n, most)
			}
		}
	}
}

// attempt returns the context of an attempt for a key, and its end.
func attempt(ctx context.Context, key string) (context.Context, func()) {
	a := &reconcile.Caller{ID: reconcile.CallerID{Controller: "c", Key: key}}
	return context.WithValue(ctx, reconcile.CallerKey{}, a), a.End
}

// limited is a limiter, and the service behind it.
type limited struct {
	*gate.Limiter
	service
	t *testing.T
}

func limit(t *testing.T, perSecond float64, burst int) *limited {
	return &limited{Limiter: gate.NewLimiter(perSecond, burst), t: t}
}

// do makes a call, and returns the delay of a refusal, or zero.
func (l *limited) do(ctx context.Context) time.Duration {
	d, _ := retry.Delay(l.Do(ctx, l.call))
	l.CheckInvariants(l.t)
	return d
}

// attempt makes a call in an attempt for a key.
func (l *limited) attempt(key string) time.Duration {
	ctx, end := attempt(l.t.Context(), key)
	defer end()
	return l.do(ctx)
}

// TestEachKeyGetsThrough has many keys make several calls in each attempt, which begins again when one is refused. They
// all get through, in about the time that their calls take, and not faster than the limit allows.
func TestEachKeyGetsThrough(t *testing.T) {
	for _, test := range []struct {
		keys, calls, burst int
		perSecond          float64
		late, early, slow  bool // keys come back late; or before their time, by an event; or their calls take up to nine seconds
	}{
		{keys: 100, calls: 1, burst: 1, perSecond: 10},
		{keys: 100, calls: 1, burst: 5, perSecond: 10},
		{keys: 40, calls: 3, burst: 3, perSecond: 10},
		{keys: 40, calls: 3, burst: 7, perSecond: 10},
		{keys: 40, calls: 5, burst: 5, perSecond: 0.5},
		{keys: 40, calls: 5, burst: 5, perSecond: 1e6},
		{keys: 40, calls: 3, burst: 5, perSecond: 10, late: true},
		{keys: 40, calls: 3, burst: 5, perSecond: 10, early: true},
		{keys: 40, calls: 3, burst: 5, perSecond: 10, late: true, early: true},
		{keys: 40, calls: 4, burst: 5, perSecond: 1, slow: true},
		{keys: 40, calls: 4, burst: 5, perSecond: 1, late: true, early: true, slow: true},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := gate.NewLimiter(test.perSecond, test.burst), &service{}
				r := rand.New(rand.NewPCG(1, 2))
				var mu sync.Mutex // guards r, order, wasted
				order := map[int]time.Duration{}
				began := time.Now()
				var wg sync.WaitGroup
				for key := range test.keys {
					wg.Go(func() {
						for {
							ctx, end := attempt(t.Context(), fmt.Sprint(key))
							var err error
							for i := 0; i < test.calls && err == nil; i++ {
								err = l.Do(ctx, s.call)
								if test.slow && err == nil {
									mu.Lock()
									d := time.Duration(r.Int64N(int64(9 * time.Second)))
									mu.Unlock()
									time.Sleep(d)
								}
							}
							end()
							if err == nil {
								mu.Lock()
								order[key] = time.Since(began)
								mu.Unlock()
								return
							}
							assert.True(t, retry.IsNotYet(err))
							d, ok := retry.Delay(err)
							assert.True(t, ok)
							mu.Lock()
							switch r.IntN(4) {
							case 0:
								if test.late {
									d += time.Duration(r.IntN(3000)) * time.Millisecond
								}
							case 1:
								if test.early {
									d = time.Duration(r.Int64N(int64(d)) + 1)
								}
							}
							mu.Unlock()
							time.Sleep(d)
						}
					})
				}
				wg.Wait()
				l.CheckInvariants(t)
				s.check(t, test.perSecond, test.burst)
				assert.Len(t, order, test.keys)
				// A key that is refused in the middle makes its calls again.
				need := float64(len(s.calls)) / test.perSecond
				if !test.late && !test.early && !test.slow {
					assert.LessOrEqual(t, time.Since(began).Seconds(), 1.3*need+1, "few places are wasted")
					assert.LessOrEqual(t, len(s.calls), 3*test.calls*test.keys, "few calls are repeated")
				}
				assert.Less(t, time.Since(began).Seconds(), 4*need+30, "none waits for long")
				time.Sleep(time.Hour)
				assert.Zero(t, l.Places(), "no state remains for finished keys")
			})
		})
	}
}

func TestNoCallerGetsInBeforeAWaitingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, 1, 1)
		do := l.attempt
		require.Zero(t, do("a"))
		assert.Equal(t, time.Second, do("b"))
		assert.Equal(t, 2*time.Second, do("c"), "each has its own time")
		assert.Equal(t, time.Second, do("b"), "and keeps it")
		time.Sleep(time.Second)
		assert.Equal(t, 2*time.Second, do("d"), "later callers wait although there is a token")
		assert.Equal(t, 3*time.Second, l.do(t.Context()), "without a key")
		assert.Zero(t, do("b"))
		time.Sleep(5 * time.Second)
		assert.Zero(t, do("c"), "it may be late")
		time.Sleep(7*time.Second - 1)
		assert.Equal(t, 1, l.Places())
		assert.Equal(t, time.Second, do("e"), "the token is promised to d")
		assert.Equal(t, 2, l.Places())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, 1, l.Places(), "d has not called for ten seconds")
		time.Sleep(time.Second - 1)
		assert.Zero(t, do("e"))
		assert.Zero(t, l.Places())
	})
}

func TestEarlyKeyKeepsItsPlaceBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, 1, 2)
		do := l.attempt
		require.Zero(t, do("x"))
		require.Zero(t, do("y"))
		require.Equal(t, time.Second, do("first"))
		require.Equal(t, 2*time.Second, do("second"))
		time.Sleep(time.Second)
		assert.Equal(t, time.Second, do("second"), "the token is for the first")
		assert.Zero(t, do("first"))
		time.Sleep(time.Second)
		assert.Zero(t, do("second"))
	})
}

func TestStartedAttemptKeepsItsReservedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, 1, 3)
		do := l.do
		a, endA := attempt(t.Context(), "a")
		b, endB := attempt(t.Context(), "b")
		require.Zero(t, do(t.Context()))
		require.Zero(t, do(a))
		require.Zero(t, do(b))
		require.Equal(t, 2*time.Second, do(a), "a place for two calls")
		require.Equal(t, 4*time.Second, do(b))
		endA()
		endB()

		time.Sleep(4 * time.Second)
		a, endA = attempt(t.Context(), "a")
		require.Zero(t, do(a))
		b, endB = attempt(t.Context(), "b")
		assert.Equal(t, time.Second, do(b), "one of the two remaining calls is for a")
		assert.Zero(t, do(a))
		endA()
		time.Sleep(time.Second)
		assert.Zero(t, do(b))
		assert.Zero(t, do(b))
		endB()
		assert.Zero(t, l.Places())
	})
}

func TestLateAttemptKeepsItsPlaceUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, 1, 2)
		do := l.do
		a, end := attempt(t.Context(), "a")
		require.Zero(t, do(t.Context()))
		require.Zero(t, do(a))
		require.Equal(t, 2*time.Second, do(a))
		end()

		time.Sleep(11 * time.Second) // nine seconds late
		a, end = attempt(t.Context(), "a")
		require.Zero(t, do(a))
		time.Sleep(2 * time.Second)
		require.Zero(t, do(t.Context()))
		require.NotZero(t, do(t.Context()), "the other call is for a")
		assert.Zero(t, do(a))
		end()
	})
}

// Other callers take every call that is not reserved.
func TestAttemptWithSlowCallsGetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := gate.NewLimiter(1, 4), &service{}
		stop := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					_ = l.Do(context.Background(), s.call)
				}
			}
		})
		attempts, err := 0, errDown
		for ; err != nil && attempts < 10; attempts++ {
			a, end := attempt(t.Context(), "a")
			err = nil
			for range 4 {
				if err = l.Do(a, func(ctx context.Context) error { time.Sleep(7950 * time.Millisecond); return s.call(ctx) }); err != nil {
					break
				}
			}
			end()
			l.CheckInvariants(t)
			d, _ := retry.Delay(err)
			time.Sleep(d)
		}
		assert.NoError(t, err)
		assert.LessOrEqual(t, attempts, 4)
		close(stop)
		others.Wait()
		assert.Zero(t, l.Places())
	})
}

func TestUnidentifiedCallersAreSpreadOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := gate.NewLimiter(10, 1), &service{}
		require.NoError(t, l.Do(t.Context(), s.call))
		seen := map[time.Duration]bool{}
		for i := range 100 {
			d, _ := retry.Delay(l.Do(t.Context(), s.call))
			assert.Equal(t, time.Duration(i+1)*100*time.Millisecond, d)
			assert.False(t, seen[d])
			seen[d] = true
		}
		for range 100_000 { // a caller that keeps retrying delays no other caller forever
			d, _ := retry.Delay(l.Do(t.Context(), s.call))
			if d > time.Minute+time.Second {
				t.Fatalf("the delay is %v", d)
			}
		}
		assert.Zero(t, l.Places())
	})
}

func TestCallNeedsWholeToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := gate.NewLimiter(10, 1), &service{}
		require.NoError(t, l.Do(t.Context(), s.call))
		time.Sleep(99 * time.Millisecond)
		require.True(t, retry.IsNotYet(l.Do(t.Context(), s.call)))
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Do(t.Context(), s.call))
		l.CheckInvariants(t)
	})
}

func TestEndedContextTakesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := gate.NewLimiter(1, 1), &service{}
		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := l.Do(ctx, s.call)
		require.ErrorIs(t, err, cause)
		assert.False(t, retry.IsNotYet(err))
		assert.Empty(t, s.calls)
		require.NoError(t, l.Do(t.Context(), s.call))
		b, err := gate.NewBreaker(gate.BreakerConfig{})
		require.NoError(t, err)
		require.ErrorIs(t, b.Do(ctx, s.call), cause)
		assert.Len(t, s.calls, 1)
	})
}

func TestCallErrorIsReturnedUnwrapped(t *testing.T) {
	want := errors.New("no")
	got := gate.NewLimiter(1, 1).Do(t.Context(), func(context.Context) error { return want })
	assert.True(t, got == want)
}

func TestNewLimiterPanicsOnInvalidArguments(t *testing.T) {
	for _, perSecond := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		assert.Panics(t, func() { gate.NewLimiter(perSecond, 1) })
	}
	assert.PanicsWithValue(t, "gate: NewLimiter called with a burst of 0, must be positive", func() { gate.NewLimiter(1, 0) })
}

func TestSlowestLimitDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := gate.NewLimiter(math.SmallestNonzeroFloat64, 1), &service{}
		require.NoError(t, l.Do(t.Context(), s.call))
		for i := range 100 {
			ctx, end := attempt(t.Context(), fmt.Sprint(i))
			d, _ := retry.Delay(l.Do(ctx, s.call))
			assert.Positive(t, d)
			d, _ = retry.Delay(l.Do(t.Context(), s.call))
			assert.Positive(t, d)
			end()
		}
		time.Sleep(24 * time.Hour)
		l.CheckInvariants(t)
	})
}

func TestKeyWhoseCallWasUsedKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, 1, 1)
		do := l.attempt
		require.Zero(t, do("x"))
		require.Equal(t, time.Second, do("a"))
		require.Equal(t, 2*time.Second, do("b"))
		time.Sleep(2 * time.Second)
		require.Zero(t, do("b"), "at its time; there is one call, and a is a second late")
		assert.Equal(t, time.Second, do("a"))
		assert.Equal(t, 1, l.Places(), "that of a")
		assert.Equal(t, 2*time.Second, do("c"), "after a")
		time.Sleep(time.Second)
		assert.Zero(t, do("a"))
	})
}

// Fifty other keys use every call, and come back on time.
func TestKeyThatIsAlwaysLateGetsThrough(t *testing.T) {
	for late, through := range map[time.Duration]bool{3 * time.Second: true, 11 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			l := gate.NewLimiter(10, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			calls := make([]int, 51)
			var wg sync.WaitGroup
			for i := range calls {
				wg.Go(func() { // ends with ctx; waited for below
					for ctx.Err() == nil {
						a, end := attempt(ctx, fmt.Sprint(i))
						err := l.Do(a, func(context.Context) error { calls[i]++; return nil })
						end()
						d, _ := retry.Delay(err)
						if i == 0 && err != nil {
							d += late
						}
						time.Sleep(max(d, time.Millisecond))
					}
				})
			}
			wg.Wait()
			l.CheckInvariants(t)
			if through {
				assert.Greater(t, calls[0], 30, "late, but within the time for which a place is kept")
			} else {
				assert.Less(t, calls[0], 5, "its places are dropped before it comes back")
			}
			assert.Greater(t, slices.Min(calls[1:]), 100)
		})
	}
}
