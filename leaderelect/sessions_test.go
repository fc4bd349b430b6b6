package leaderelect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// crash simulates a crash of a party: its connections are cut, and it makes no more calls.
func (w *world) crash(party string) time.Time {
	w.cut(party, time.Hour)
	w.sessions.drop(party)
	return time.Now()
}

// pairOf starts a leader, and a follower a second later, and lets a minute pass. Both act in a fenced way.
func pairOf(t *testing.T, w *world, change func(name string) func(*leaderelect.Config)) (a, b *party) {
	t.Helper()
	w.acts, w.early = true, true
	a, b = w.join(t, "a", change("a")), w.join(t, "b", change("b"))
	startBoth(a, b)
	after(time.Minute)
	require.True(t, a.IsLeader())
	return a, b
}

func TestFollowerTakesOverImmediatelyOnlyWithSessions(t *testing.T) {
	for name, change := range map[string]func(*leaderelect.Config){"polling": func(*leaderelect.Config) {}, "watching": watched} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				_, b := pairOf(t, w, func(name string) func(*leaderelect.Config) {
					return func(cfg *leaderelect.Config) { change(cfg); present(w, name)(cfg) }
				})
				died := w.crash("a")
				after(time.Minute)
				require.True(t, b.IsLeader())
				assert.Equal(t, latency/2+latency+latency, w.term(t, 2).began.Sub(died), "it is notified, reads, and claims")
				assert.Positive(t, w.refusals(), "writes of a in flight")
				w.finish(t)
			})
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				_, b := pairOf(t, w, func(string) func(*leaderelect.Config) { return change })
				last := w.history()[len(w.history())-1].at
				w.crash("a")
				after(time.Minute)
				require.True(t, b.IsLeader())
				assert.GreaterOrEqual(t, w.term(t, 2).began.Sub(last), lease)
				w.finish(t)
			})
		})
	}
}

func TestLiveLeaderWithoutSessionIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, _ := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
		first := w.read().Session
		require.NotEmpty(t, first)
		w.sessions.drop("a")
		after(latency)
		assert.Empty(t, w.read().Session, "it reports that immediately")
		after(2 * retry)
		second := w.read().Session
		assert.NotEmpty(t, second, "it has another one")
		assert.NotEqual(t, first, second)
		after(time.Minute)
		assert.True(t, a.IsLeader())
		assert.Equal(t, 1, w.led())

		died := w.crash("a")
		after(time.Second)
		assert.Less(t, w.term(t, 2).began.Sub(died), 4*latency, "the new session is used")
		w.finish(t)
	})
}

func TestLeaderReplacedAfterSessionLossIsFencedUntilItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
		w.cut("a", 3*time.Second) // so that it does not say in time that it lives
		w.sessions.drop("a")
		after(time.Second)
		require.True(t, b.IsLeader())
		require.True(t, a.IsLeader(), "two lead, because a cannot know")
		refused := w.refusals()
		after(6 * time.Second)
		require.False(t, a.IsLeader())
		require.Greater(t, w.refusals(), refused)
		log := w.term(t, 1)
		require.ErrorIs(t, log.leadership.Err(), leaderelect.ErrLeaseTaken)
		assert.Less(t, log.returned.Sub(w.term(t, 2).began), 2*request+retry)
		after(time.Minute)
		require.Equal(t, 2, w.led())
		w.finish(t)
	})
}

func TestUnfencedLeaderIsNotReplacedEarly(t *testing.T) {
	for what, fenced := range map[string]bool{"not said": false, "said": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) {
					return func(cfg *leaderelect.Config) {
						present(w, name)(cfg)
						cfg.Fenced = fenced || name == "b" // b is of the next version, in which the flag is set
					}
				})
				require.Equal(t, fenced, w.read().Fenced)
				w.cut("a", 3*time.Second) // so that it does not say in time that it lives
				w.sessions.drop("a")
				after(time.Second)
				assert.True(t, a.IsLeader())
				assert.Equal(t, fenced, b.IsLeader())
				after(lease)
				w.finish(t)
			})
		})
	}
}

func TestUnfencedWorkWaitsAfterEarlyTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
		c := w.join(t, "c", func(cfg *leaderelect.Config) { present(w, "c")(cfg); cfg.Fenced = false })
		c.start()
		after(retry)
		w.cut("a", time.Hour)
		w.sessions.drop("a")
		after(time.Second)
		require.True(t, b.IsLeader())
		require.NoError(t, b.stop(), "it releases")
		released := time.Now()
		require.True(t, a.IsLeader(), "it does not know")
		after(lease - time.Second)
		require.False(t, a.IsLeader())
		require.False(t, c.IsLeader())
		after(2 * retry)
		require.True(t, c.IsLeader())
		assert.GreaterOrEqual(t, w.term(t, 3).began.Sub(released), lease-latency)
		w.finish(t)
	})
}

func TestUnheldSessionIsNeverMissed(t *testing.T) {
	for name, f := range map[string]sessionFault{"an error": sessionError, "a stall": sessionStall, "a hang": sessionHang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.sessions.do(func(op, _ string) sessionFault {
					if op == "hold" {
						return f
					}
					return sessionLie
				})
				a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
				assert.Empty(t, w.read().Session)
				assert.Zero(t, w.sessions.asked)
				assert.Equal(t, 1, w.led())
				require.True(t, a.IsLeader())
				crashAndWaitForTheLease(t, w, b)
				w.finish(t)
			})
		})
	}
}

func TestFailingSessionsOnlyCostTime(t *testing.T) {
	crashed := func(t *testing.T, f sessionFault, healAfter time.Duration) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.sessions.do(func(op, _ string) sessionFault {
				if op == "gone" {
					return f
				}
				return sessionFine
			})
			_, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
			last := w.history()[len(w.history())-1].at
			w.crash("a")
			after(healAfter)
			w.sessions.heal()
			after(2 * lease)
			require.True(t, b.IsLeader())
			took = w.term(t, 2).began.Sub(last)
			w.finish(t)
		})
		return took
	}
	for _, f := range []sessionFault{sessionError, sessionStall, sessionHang} {
		took := crashed(t, f, lease+retry)
		assert.GreaterOrEqual(t, took, lease)
		assert.Less(t, took, lease+2*retry)
	}
	assert.Less(t, crashed(t, sessionError, 2*time.Second), 2*time.Second+3*retry, "it is asked again")
	assert.Less(t, crashed(t, sessionHang, 2*time.Second), 2*time.Second+3*retry)
}

func TestRecordNamesSessionOnceHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sessions.do(func(string, string) sessionFault { return sessionError })
		a := w.join(t, "a", present(w, "a"))
		a.start()
		after(time.Second)
		w.sessions.heal()
		require.Empty(t, w.read().Session)
		begin := time.Now()
		for w.read().Session == "" {
			time.Sleep(time.Millisecond)
			require.Less(t, time.Since(begin), 2*retry)
		}
		history := w.history()
		n := len(history)
		assert.Less(t, history[n-1].at.Sub(history[n-2].at), retry/2, "it does not wait for the next renewal")
		w.finish(t)
	})
}

func TestFirstClaimNamesSessionIfAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sessions.do(func(string, string) sessionFault { return sessionSlow })
		w.join(t, "a", present(w, "a")).start()
		after(time.Minute)
		assert.NotEmpty(t, w.history()[0].rec().Session)
		assert.Equal(t, time.Second+2*latency, w.at(w.term(t, 1).began))
		w.finish(t)
	})
}

func TestFalseSessionLossCausesAtMostOneTakeoverPerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.acts, w.early = true, true
		w.sessions.do(func(op, _ string) sessionFault {
			if op == "gone" {
				return sessionLie
			}
			return sessionFine
		})
		for _, name := range []string{"a", "b"} {
			w.join(t, name, func(cfg *leaderelect.Config) { watched(cfg); present(w, name)(cfg) }).start()
			after(time.Second) // they do not write at the same moments
		}
		const length = 10 * time.Minute
		after(length)
		assert.Greater(t, w.led(), 10)
		assert.LessOrEqual(t, w.led(), 1+2*int(length/lease+1))
		w.finish(t)
	})
}

func TestEndedElectorWithoutReleaseNeedsNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		keep := func(name string) func(*leaderelect.Config) {
			return func(cfg *leaderelect.Config) { cfg.ReleaseOnCancel = false; present(w, name)(cfg) }
		}
		a, b := pairOf(t, w, keep)
		w.mu.Lock()
		w.early = false // they do not work at the same time
		w.mu.Unlock()
		require.NoError(t, a.stop())
		after(4 * latency)
		require.True(t, b.IsLeader())
		w.finish(t)
	})
}

// hinted gives a party sessions without Fenced.
func hinted(w *world, party string) func(*leaderelect.Config) {
	return func(cfg *leaderelect.Config) {
		present(w, party)(cfg)
		cfg.Fenced = false
	}
}

func TestEndOfSessionAnnouncesRelease(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, a *party){
		"when the caller cancels": func(_ *testing.T, a *party) { a.cancel(context.Canceled) },
		"when it resigns":         func(t *testing.T, a *party) { require.NoError(t, a.Resign(t.Context(), 0)) },
		"when it hands over":      func(t *testing.T, a *party) { require.NoError(t, a.HandOver(t.Context(), "b")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return hinted(w, name) })
				w.mu.Lock()
				w.early = false
				w.mu.Unlock()
				begin := time.Now()
				leave(t, a)
				after(time.Second)
				require.True(t, b.IsLeader())
				assert.Equal(t, latency+latency/2+latency+latency, w.term(t, 2).began.Sub(begin), "a releases, b is notified, reads, and claims")
				w.finish(t)
			})
		})
	}
}

func TestLeaderHoldsNewSessionAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
		first := w.read().Session
		require.NoError(t, a.Resign(t.Context(), 0))
		after(latency)
		assert.Len(t, w.sessions.of("a"), 1, "it does not wait")
		assert.NotContains(t, w.sessions.of("a"), first)
		after(time.Minute)
		require.NoError(t, b.Resign(t.Context(), 0))
		after(time.Minute)
		require.True(t, a.IsLeader())
		assert.NotEmpty(t, w.read().Session)
		assert.NotEqual(t, first, w.read().Session)
		assert.Equal(t, 3, w.led())
		w.finish(t)
	})
}

// lingers is Sessions that holds a session for longer than it should.
type lingers struct{ post }

func (l lingers) Hold(ctx context.Context, session string, held func()) error {
	err := l.post.Hold(ctx, session, held)
	time.Sleep(10 * time.Second)
	return err
}

func TestReleasedSessionIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.Sessions = lingers{post{w.sessions, "a"}} })
		a.start()
		after(time.Second)
		first := w.read().Session
		require.NotEmpty(t, first)
		require.NoError(t, a.Resign(t.Context(), 0))
		after(3 * retry)
		require.True(t, a.IsLeader())
		assert.Empty(t, w.read().Session)
		after(10 * time.Second)
		assert.NotEmpty(t, w.read().Session)
		assert.NotEqual(t, first, w.read().Session)
		require.ErrorIs(t, a.stop(), leaderelect.ErrStoreStuck)
		after(10 * time.Second)
		w.finish(t)
	})
}

func TestEarlyTakeoverNeedsFreshRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
		died := w.crash("a")
		w.mu.Lock()
		w.plan = func(c call) (fault, time.Duration) {
			if c.party == "b" && c.op == "get" && c.now.Sub(died) < 3*time.Second {
				return lostRequest, 0
			}
			return none, 0
		}
		w.mu.Unlock()
		after(3 * time.Second)
		require.Equal(t, 1, w.led(), "b knows that the session has ended, but not the record")
		after(3 * time.Second)
		require.Equal(t, 2, w.led())
		w.finish(t)
	})
}

func TestAmbiguousEarlyClaimDoesNotDelayTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
		died, lost := w.crash("a"), false
		w.mu.Lock()
		w.plan = func(c call) (fault, time.Duration) {
			if c.party == "b" && c.op == "update" && !lost {
				lost = true
				return stall, 0 // until the call is given up
			}
			return none, 0
		}
		w.mu.Unlock()
		after(lease - retry - time.Second)
		require.True(t, lost)
		require.Equal(t, 1, w.led(), "it does not claim a second time before the end of the lease")
		after(lease)
		require.True(t, b.IsLeader())
		assert.Less(t, w.term(t, 2).began.Sub(died), lease+time.Second, "b has read the record before a died")
		w.finish(t)
	})
}

func TestLostSessionReplacesNobodyWithoutFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return hinted(w, name) })
		w.mu.Lock()
		w.early = false
		w.mu.Unlock()
		w.cut("a", 3*time.Second)
		w.sessions.drop("a")
		after(time.Minute)
		require.True(t, a.IsLeader())
		require.Equal(t, 1, w.led())

		crashAndWaitForTheLease(t, w, b)
		w.finish(t)
	})
}

func TestRunWaitsForSessionsAndReportsDelay(t *testing.T) {
	for name, op := range map[string]string{"of Hold": "hold", "of Gone": "gone"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.sessions.do(func(o, party string) sessionFault {
					if o == op && party == "b" {
						return sessionHang
					}
					return sessionFine
				})
				_, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
				begin := time.Now()
				require.ErrorIs(t, b.stop(), leaderelect.ErrStoreStuck)
				assert.Equal(t, grace, time.Since(begin))
				w.finish(t)
			})
		})
	}
}

func TestPanickingSessionsIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, _ := pairOf(t, w, func(name string) func(*leaderelect.Config) {
			return func(cfg *leaderelect.Config) { cfg.Sessions, cfg.Fenced = panics{}, true }
		})
		require.True(t, a.IsLeader())
		w.finish(t)
	})
}

// panics is Sessions that panics.
type panics struct{}

func (panics) Hold(_ context.Context, _ string, held func()) error { held(); panic("on purpose") }
func (panics) Gone(context.Context, string) error                  { panic("on purpose") }

// crashAndWaitForTheLease crashes the leader a, and checks that b takes over when the lease has expired, and not before.
func crashAndWaitForTheLease(t *testing.T, w *world, b *party) {
	t.Helper()
	last := w.history()[len(w.history())-1].at
	w.crash("a")
	after(lease - time.Second)
	require.False(t, b.IsLeader())
	after(lease)
	require.True(t, b.IsLeader())
	assert.GreaterOrEqual(t, w.term(t, 2).began.Sub(last), lease)
}
