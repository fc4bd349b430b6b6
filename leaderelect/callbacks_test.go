package leaderelect_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

func TestEveryChangeOfLeaderIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.join(t, "a", nil), w.join(t, "b", nil)
		startBoth(a, b)
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
		w.finish(t)
	})
}

func TestCallbackMutationsOfLeaderHaveNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.Metadata = map[string]string{"address": "here"}
			told := cfg.OnNewLeader
			cfg.OnNewLeader = func(l leaderelect.Leader) {
				told(l)
				l.Metadata["address"] = "elsewhere"
			}
		})
		a.start()
		after(time.Second)
		leader, _ := a.Leader()
		assert.Equal(t, map[string]string{"address": "here"}, leader.Metadata)
		assert.Equal(t, leader.Metadata, w.read().Metadata)
		leader.Metadata["address"] = "nowhere"
		leader, _ = a.Leader()
		assert.Equal(t, map[string]string{"address": "here"}, leader.Metadata)
		w.finish(t)
	})
}

func TestOtherLeaderOfSameTermIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.finish(t)
	})
}

func TestSlowOnNewLeaderSkipsFormerLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		var told []uint64
		for _, l := range a.leaders {
			told = append(told, l.Term)
		}
		assert.Equal(t, []uint64{1, 5}, told)
		assert.True(t, a.IsLeader())
		assert.Less(t, w.term(t, 1).began.Sub(w.history()[5].at), time.Second, "the work does not wait for it")
		w.finish(t)
	})
}

func TestHangingOnNewLeaderDoesNotDelayWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", nil)
		a.hang = func() time.Duration { return time.Hour }
		a.start()
		after(3 * latency)
		require.Equal(t, 1, w.led())
		require.NoError(t, a.Check(0))
		a.cancel(context.Canceled)
		after(time.Minute)
		assert.Empty(t, w.read().Holder, "it is released anyway")
		w.finish(t)
	})
}

func TestWorkThatNeverStartsOrEndsIsReported(t *testing.T) {
	for want, change := range map[string]func(cfg *leaderelect.Config, hang func()){
		"has not begun its work for": func(cfg *leaderelect.Config, hang func()) {
			cfg.Hooks.StartedLeading = func(uint64) { hang() }
		},
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
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				release := make(chan struct{})
				a := w.join(t, "a", func(cfg *leaderelect.Config) { change(cfg, func() { <-release }) })
				a.start()
				after(time.Second)
				require.True(t, a.IsLeader())
				a.cancel(context.Canceled)
				after(lease - time.Second)
				require.NoError(t, a.Check(time.Second))
				after(2 * retry)
				require.ErrorContains(t, a.Check(time.Second), want)
				require.ErrorContains(t, a.Check(time.Second), `leaderelect: check "lease": `)
				require.NoError(t, a.Check(time.Minute), "not for that long")
				close(release)
				after(time.Second)
				require.NoError(t, a.Check(0))
				w.finish(t)
			})
		})
	}
}

func TestLeaseIsRenewedUntilOnStoppedLeadingReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.finish(t)
	})
}

func TestLeaseLostInOnStoppedLeadingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.finish(t)
	})
}

func TestPanicInHookOrRandIsContained(t *testing.T) {
	for how, fail := range map[string]func(){"panic": func() { panic("on purpose") }, "Goexit": runtime.Goexit} {
		for where, change := range map[string]func(*leaderelect.Config){
			"StartedLeading": func(cfg *leaderelect.Config) { cfg.Hooks.StartedLeading = func(uint64) { fail() } },
			"StoppedLeading": func(cfg *leaderelect.Config) { cfg.Hooks.StoppedLeading = func(uint64, error) { fail() } },
			"Request": func(cfg *leaderelect.Config) {
				cfg.Hooks.Request = func(string, time.Duration, error) { fail() }
			},
			"Rand": func(cfg *leaderelect.Config) { cfg.Rand = func() float64 { fail(); return 0 } },
		} {
			t.Run(how+" in "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					a, b := w.join(t, "a", change), w.join(t, "b", change)
					startBoth(a, b)
					after(time.Minute)
					require.True(t, a.IsLeader())
					require.NoError(t, a.stop())
					assert.Empty(t, w.read().Holder, "the lease was released")
					after(2 * retry)
					require.True(t, b.IsLeader())
					w.finish(t)
				})
			})
		}
	}
}

func TestRandOutOfRangeIsIgnored(t *testing.T) {
	for _, r := range []float64{-1, 1, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
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
			w.finish(t)
		})
	}
}

// crashing is the handler of a Logger that panics when a term is over.
type crashing struct{ slog.Handler }

func (crashing) Enabled(context.Context, slog.Level) bool { return true }
func (c crashing) WithAttrs([]slog.Attr) slog.Handler     { return c }

func (crashing) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "leaderelect: renewing the lease failed" {
		panic("on purpose")
	}
	return nil
}

func TestPanicOutOfRunLeavesNoWorkBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.finish(t)
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
