package leaderelect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

func TestEveryChangeOfLeaderIsReportedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair(t, nil)
		after(time.Minute)
		require.NoError(t, a.stop())
		after(time.Minute)
		a.start()
		after(time.Minute)
		require.NoError(t, b.stop())
		after(time.Minute)
		want := []uint64{1, 2, 3}
		for _, p := range []*party{a, b} {
			var terms []uint64
			for _, l := range p.leaders {
				terms = append(terms, l.Term)
			}
			if p == b {
				want = []uint64{1, 2} // it had left
			}
			assert.Equal(t, want, terms, p.name)
		}
	})
}

func TestCallbackMutationsOfLeaderHaveNoEffect(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.leader(t, func(cfg *leaderelect.Config) {
			cfg.Metadata = map[string]string{"address": "here"}
			on := cfg.OnNewLeader
			cfg.OnNewLeader = func(l leaderelect.Leader) {
				on(l)
				l.Metadata["address"] = "elsewhere"
			}
		})
		leader, _ := a.Leader()
		assert.Equal(t, map[string]string{"address": "here"}, leader.Metadata)
		assert.Equal(t, leader.Metadata, w.read().Metadata)
		leader.Metadata["address"] = "nowhere"
		leader, _ = a.Leader()
		assert.Equal(t, map[string]string{"address": "here"}, leader.Metadata)
	})
}

func TestOtherLeaderOfSameTermIsReported(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		for _, who := range []string{"x", "y"} {
			w.write(record{Holder: "pod-0", Incarnation: who, Term: 1, Renewal: 1, LeaseMillis: 15_000})
			if who == "x" {
				a.start()
			}
			after(2 * retry)
		}
		assert.Len(t, a.leaders, 2)
		w.forgot = true
	})
}

func TestSlowOnNewLeaderSkipsFormerLeaders(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		a.hang = func() time.Duration { return 12 * time.Second }
		for term := range uint64(4) {
			w.write(record{Holder: "x", Incarnation: "x", Term: term + 1, Renewal: 1, LeaseMillis: 15_000})
			if term == 0 {
				a.start()
			}
			after(time.Second)
		}
		w.write(record{Incarnation: "x", Term: 4, Renewal: 2, LeaseMillis: 15_000})
		after(time.Minute)
		var reported []uint64
		for _, l := range a.leaders {
			reported = append(reported, l.Term)
		}
		assert.Equal(t, []uint64{1, 5}, reported)
		assert.True(t, a.IsLeader())
		assert.Less(t, w.term(t, 1).began.Sub(w.history()[5].at), time.Second, "the work does not wait for it")
	})
}

func TestWorkThatNeverEndsIsReported(t *testing.T) {
	for want, change := range map[string]func(cfg *leaderelect.Config, hang func()){
		"has returned and OnStoppedLeading has not for": func(cfg *leaderelect.Config, hang func()) {
			on := cfg.OnStoppedLeading
			cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) { hang(); on(l, cause) }
		},
		"failed to renew leadership for": func(cfg *leaderelect.Config, hang func()) {
			on := cfg.OnStartedLeading
			cfg.DrainTimeout = time.Second
			cfg.OnStartedLeading = func(ctx context.Context, l *leaderelect.Leadership) error {
				err := on(ctx, l)
				hang()
				return err
			}
		},
	} {
		subWorld(t, want, func(t *testing.T, w *world) {
			release := make(chan struct{})
			a := w.leader(t, func(cfg *leaderelect.Config) { change(cfg, func() { <-release }) })
			require.True(t, a.IsLeader())
			a.cancel(context.Canceled)
			after(lease - 2*time.Second)
			require.NoError(t, a.Check())
			after(2 * retry)
			require.ErrorContains(t, a.Check(), want)
			require.ErrorContains(t, a.Check(), `leaderelect: check "lease": `)
			close(release)
			after(time.Second)
			require.NoError(t, a.Check())
		})
	}
}

func TestLeaseIsRenewedUntilOnStoppedLeadingReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var inside, released time.Duration
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			on := cfg.OnStoppedLeading
			cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) {
				time.Sleep(time.Minute)
				assert.NoError(t, l.Err())
				inside = w.at(time.Now())
				on(l, cause)
			}
		})
		a.behave = work{byItself: time.Second}.run
		require.NoError(t, a.RunOnce(context.Background()))
		released = w.at(w.history()[len(w.history())-1].at)
		assert.Empty(t, w.read().Holder)
		assert.Greater(t, released, inside)
	})
}

func TestLeaseLostInOnStoppedLeadingIsReported(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			on := cfg.OnStoppedLeading
			cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) {
				assert.NoError(t, cause)
				<-l.Context().Done()
				on(l, cause)
			}
		})
		a.behave = func(context.Context, *leaderelect.Leadership) error {
			w.cut("a", time.Hour)
			return nil
		}
		require.ErrorIs(t, a.RunOnce(context.Background()), leaderelect.ErrLeaseExpired)
	})
}

func TestRandOutOfRangeIsIgnored(t *testing.T) {
	for _, r := range []float64{-1, 1, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		inWorld(t, func(t *testing.T, w *world) {
			gets := 0
			w.plan = func(c call) (fault, time.Duration) {
				if c.op == "get" {
					gets++
				}
				return none, 0
			}
			w.write(record{Holder: "x", Incarnation: "x", Term: 1, Renewal: 1, LeaseMillis: 15_000})
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.Rand = func() float64 { return r } })
			a.start()
			after(lease + time.Second)
			assert.True(t, a.IsLeader())
			assert.Less(t, gets, 10)
		})
	}
}

// crashing is the handler of a Logger that panics when a term is over.
type crashing struct{ slog.Handler }

func (crashing) Enabled(context.Context, slog.Level) bool { return true }
func (c crashing) WithAttrs([]slog.Attr) slog.Handler     { return c }

func (crashing) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "renewing the lease failed" {
		panic("on purpose")
	}
	return nil
}

func TestPanicOutOfRunLeavesNoWorkBehind(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.plan = on("a", "update", 1, lostRequest, 0)
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.Logger = slog.New(crashing{slog.DiscardHandler})
		})
		a.behave = work{linger: time.Second}.run
		a.startWith(func(ctx context.Context) error {
			assert.Panics(t, func() { _ = a.Run(ctx) })
			assert.False(t, w.term(t, 1).returned.IsZero(), "the work has returned")
			return a.Run(ctx)
		})
		after(2 * lease)
		require.True(t, a.IsLeader())
		require.Equal(t, 2, w.led())
	})
}

func TestPanicInAnyCallbackIsCaptured(t *testing.T) {
	crash := func() { panic("on purpose") }
	for how, fail := range map[string]func(){"panic": crash, "Goexit": runtime.Goexit} {
		for where, change := range map[string]func(*leaderelect.Config){
			"OnStartedLeading": func(cfg *leaderelect.Config) {
				cfg.OnStartedLeading = func(context.Context, *leaderelect.Leadership) error { fail(); return nil }
			},
			"OnStoppedLeading": func(cfg *leaderelect.Config) {
				cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { fail() }
			},
			"OnNewLeader": func(cfg *leaderelect.Config) { cfg.OnNewLeader = func(leaderelect.Leader) { fail() } },
			"OnStepDownOverrun": func(cfg *leaderelect.Config) {
				cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { fail() }
			},
			"Request": func(cfg *leaderelect.Config) { cfg.Hooks.Request = func(string, time.Duration, error) { fail() } },
			"Rand":    func(cfg *leaderelect.Config) { cfg.Rand = func() float64 { fail(); return 0 } },
		} {
			t.Run(how+" in "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					ran := 0
					a := w.join(t, "a", func(cfg *leaderelect.Config) {
						cfg.OnStoppedLeading, cfg.OnNewLeader = nil, nil
						cfg.OnStartedLeading = func(context.Context, *leaderelect.Leadership) error {
							ran++
							time.Sleep(time.Minute) // an overrun
							return errExpected
						}
						change(cfg)
					})
					w.plan = func(c call) (fault, time.Duration) {
						if c.party == "a" && c.op == "update" && w.at(c.now) < time.Minute && where == "OnStepDownOverrun" {
							return stall, 0
						}
						return none, 0
					}
					a.startWith(a.RunOnce)
					after(time.Hour)
					<-a.done
					require.Error(t, a.err)
					var caught *wait.PanicError
					if where == "OnStartedLeading" || where == "OnStoppedLeading" {
						assert.Equal(t, how == "panic", errors.As(a.err, &caught), "%v", a.err)
					} else {
						require.ErrorIs(t, a.err, errExpected)
					}
					if where != "OnStartedLeading" {
						assert.Equal(t, 1, ran)
					}
					if where != "OnStepDownOverrun" {
						assert.Empty(t, w.read().Holder, "the lease was released")
					}
				})
			})
		}
	}
}

func TestHooksReportCalls(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var reported []string
		note := func(what ...any) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, fmt.Sprint(what...))
		}
		w.plan = func(c call) (fault, time.Duration) {
			if c.op == "get" && c.n > 1 {
				return lostRequest, 0
			}
			return on("a", "update", 1, lostRequest, 0)(c)
		}
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.Hooks.Request = func(operation string, took time.Duration, err error) { note(operation, " ", took, " ", err) }
		})
		a.behave = func(_ context.Context, l *leaderelect.Leadership) error {
			note("works")
			time.Sleep(retry + time.Second)
			return errExpected
		}
		require.ErrorIs(t, a.RunOnce(t.Context()), errExpected)
		assert.Equal(t, []string{
			"get 2ms " + leaderelect.ErrNotFound.Error(), "create 2ms <nil>", "works",
			"update 0s connection reset", "get 0s connection reset",
			"update 0s connection reset", "get 0s connection reset",
		}, reported)
		w.forgot = true
	})
}
