package leaderelect_test

import (
	"context"
	"testing"
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
			inWorld(t, func(t *testing.T, w *world) {
				_, b := pairOf(t, w, func(name string) func(*leaderelect.Config) {
					return func(cfg *leaderelect.Config) { change(cfg); present(w, name)(cfg) }
				})
				died := w.crash("a")
				after(time.Minute)
				require.True(t, b.IsLeader())
				assert.Equal(t, latency/2+latency+latency, w.term(t, 2).began.Sub(died), "it is notified, reads, and claims")
				assert.Positive(t, w.refusals(), "writes of a in flight")
				assert.Equal(t, 1, w.sessions.asked, "it waits in one call")
			})
			inWorld(t, func(t *testing.T, w *world) {
				_, b := pairOf(t, w, func(string) func(*leaderelect.Config) { return change })
				last := w.history()[len(w.history())-1].at
				w.crash("a")
				after(time.Minute)
				require.True(t, b.IsLeader())
				assert.GreaterOrEqual(t, w.term(t, 2).began.Sub(last), lease)
			})
		})
	}
}

func TestLiveLeaderWithoutSessionIsNotReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
	})
}

func TestLeaderReplacedAfterSessionLossIsFencedUntilItStops(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return present(w, name) })
		w.cut("a", 3*time.Second) // so that it does not say in time that it lives
		w.sessions.drop("a")
		after(time.Second)
		require.True(t, b.IsLeader())
		require.True(t, a.IsLeader(), "two lead, because a cannot notice")
		refused := w.refusals()
		after(6 * time.Second)
		require.False(t, a.IsLeader())
		require.Greater(t, w.refusals(), refused)
		log := w.term(t, 1)
		require.ErrorIs(t, log.leadership.Err(), leaderelect.ErrLeaseTaken)
		assert.Less(t, log.returned.Sub(w.term(t, 2).began), 2*request+retry)
		after(time.Minute)
		require.Equal(t, 2, w.led())
	})
}

func TestUnfencedLeaderIsNotReplacedEarly(t *testing.T) {
	for what, fenced := range map[string]bool{"not said": false, "said": true} {
		subWorld(t, what, func(t *testing.T, w *world) {
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
		})
	}
}

func TestUnfencedWorkWaitsAfterEarlyTakeover(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
		require.True(t, a.IsLeader(), "it has not noticed")
		after(lease - time.Second)
		require.False(t, a.IsLeader())
		require.False(t, c.IsLeader())
		after(2 * retry)
		require.True(t, c.IsLeader())
		assert.GreaterOrEqual(t, w.term(t, 3).began.Sub(released), lease-latency)
	})
}

func TestUnheldSessionIsNeverMissed(t *testing.T) {
	for name, f := range map[string]sessionFault{"an error": sessionError, "a stall": sessionStall, "a hang": sessionHang} {
		subWorld(t, name, func(t *testing.T, w *world) {
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
		})
	}
}

func TestFailingSessionsOnlyCostTime(t *testing.T) {
	crashed := func(t *testing.T, f sessionFault, healAfter time.Duration) (took time.Duration) {
		inWorld(t, func(t *testing.T, w *world) {
			w.sessions.do(func(op, _ string) sessionFault {
				if op == "end" {
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
	inWorld(t, func(t *testing.T, w *world) {
		w.sessions.do(func(string, string) sessionFault { return sessionError })
		w.leader(t, present(w, "a"))
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
	})
}

func TestFirstClaimNamesSessionIfAvailable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.sessions.do(func(string, string) sessionFault { return sessionSlow })
		w.join(t, "a", present(w, "a")).start()
		after(time.Minute)
		assert.NotEmpty(t, w.history()[0].rec().Session)
		assert.Equal(t, time.Second+2*latency, w.at(w.term(t, 1).began))
	})
}

func TestFalseSessionLossCausesAtMostOneTakeoverPerLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.acts, w.early = true, true
		w.sessions.do(func(op, _ string) sessionFault {
			if op == "end" {
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
	})
}

func TestEndedElectorWithoutReleaseNeedsNoWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
		subWorld(t, name, func(t *testing.T, w *world) {
			a, b := pairOf(t, w, func(name string) func(*leaderelect.Config) { return hinted(w, name) })
			w.mu.Lock()
			w.early = false
			w.mu.Unlock()
			begin := time.Now()
			leave(t, a)
			after(time.Second)
			require.True(t, b.IsLeader())
			assert.Equal(t, latency+latency/2+latency+latency, w.term(t, 2).began.Sub(begin), "a releases, b is notified, reads, and claims")
		})
	}
}

func TestLeaderHoldsNewSessionAfterRelease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
	})
}

// slowHold is Sessions whose Hold ignores its context for a while: before it opens a session, or at its end.
type slowHold struct {
	post
	opens, ends time.Duration
}

func (s slowHold) Hold(ctx context.Context, session string, held func()) error {
	time.Sleep(s.opens)
	err := s.post.Hold(context.WithoutCancel(ctx), session, func() {
		held()
		go func() { // ends with ctx
			<-ctx.Done()
			s.drop(s.party)
		}()
	})
	time.Sleep(s.ends)
	return err
}

func TestReleasedSessionIsNotReused(t *testing.T) {
	for what, slow := range map[string]slowHold{"it ends late": {ends: 10 * time.Second}, "it is opened late": {opens: 10 * time.Second, ends: 10 * time.Second}} {
		subWorld(t, what, func(t *testing.T, w *world) {
			slow.post = post{w.sessions, "a"}
			a := w.leader(t, func(cfg *leaderelect.Config) { cfg.Sessions = slow })
			after(retry)
			first := w.read().Session
			require.Equal(t, slow.opens == 0, first != "")
			require.NoError(t, a.Resign(t.Context(), 0))
			after(4 * retry)
			require.True(t, a.IsLeader())
			assert.Empty(t, w.read().Session)
			after(slow.opens)
			assert.Empty(t, w.read().Session)
			after(slow.opens + slow.ends)
			assert.NotEmpty(t, w.read().Session)
			assert.NotEqual(t, first, w.read().Session)
			require.ErrorIs(t, a.stop(), leaderelect.ErrStoreStuck)
			after(time.Minute)
		})
	}
}

func TestEarlyTakeoverNeedsFreshRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
		require.Equal(t, 1, w.led(), "b has noticed the end of the session, but not read the record")
		after(3 * time.Second)
		require.Equal(t, 2, w.led())
	})
}

func TestAmbiguousEarlyClaimDoesNotDelayTakeover(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
	})
}

func TestRunWaitsForSessionsAndReportsDelay(t *testing.T) {
	for name, op := range map[string]string{"of Hold": "hold", "of AwaitEnd": "end"} {
		subWorld(t, name, func(t *testing.T, w *world) {
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
		})
	}
}

func TestPanickingSessionsIsAFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, _ := pairOf(t, w, func(name string) func(*leaderelect.Config) {
			return func(cfg *leaderelect.Config) { cfg.Sessions, cfg.Fenced = panics{}, true }
		})
		require.True(t, a.IsLeader())
	})
}

// panics is Sessions that panics.
type panics struct{}

func (panics) Hold(_ context.Context, _ string, held func()) error { held(); panic("on purpose") }
func (panics) AwaitEnd(context.Context, string) error              { panic("on purpose") }

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
