package leaderelect_test

import (
	"context"
	"errors"
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

func TestWhatACallbackDoesToALeaderChangesNothing(t *testing.T) {
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

func TestAnotherLeaderOfTheSameTermIsReported(t *testing.T) {
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

func TestASlowCallbackDelaysNoRenewalAndSkipsLeadersOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var seen []uint64
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			on := cfg.OnNewLeader
			cfg.OnNewLeader = func(l leaderelect.Leader) {
				time.Sleep(12 * time.Second)
				seen = append(seen, l.Term)
				on(l)
			}
		})
		for term := range uint64(4) {
			w.write(record{Holder: "x", Incarnation: "x", Term: term + 1, Renewal: 1, LeaseMillis: 15_000})
			if term == 0 {
				a.start()
			}
			after(time.Second)
		}
		w.write(record{Incarnation: "x", Term: 4, Renewal: 2, LeaseMillis: 15_000})
		after(time.Minute)
		assert.Equal(t, []uint64{1, 5}, seen)
		assert.True(t, a.IsLeader())
		assert.GreaterOrEqual(t, w.term(t, 1).began.Sub(w.history()[5].at), 12*time.Second)
		w.finish(t)
	})
}

func TestATermThatIsOverBeforeItsWorkCouldStartHasNoCallbacks(t *testing.T) {
	for what, end := range map[string]func(w *world, a *party){
		"lost":      func(w *world, _ *party) { w.cut("a", renew) },
		"cancelled": func(_ *world, a *party) { a.cancel(context.Canceled) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.join(t, "a", func(cfg *leaderelect.Config) {
					on := cfg.OnNewLeader
					cfg.OnNewLeader = func(l leaderelect.Leader) {
						on(l)
						time.Sleep(lease)
					}
				})
				a.startWith(a.RunOnce)
				after(time.Second)
				require.True(t, a.IsLeader())
				end(w, a)
				<-a.done
				if what == "lost" {
					require.ErrorIs(t, a.err, leaderelect.ErrLeaseExpired)
				} else {
					require.NoError(t, a.err)
					assert.Empty(t, w.read().Holder)
				}
				assert.Zero(t, w.led())
				w.finish(t)
			})
		})
	}
}

func TestTheLeaseIsRenewedUntilOnStoppedLeadingReturns(t *testing.T) {
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

func TestALeaseThatIsLostInOnStoppedLeadingIsReported(t *testing.T) {
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

func TestAPanicInAnyCallbackIsCaptured(t *testing.T) {
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
