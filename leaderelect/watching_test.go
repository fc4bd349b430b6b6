package leaderelect_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// watched makes a party watch.
func watched(cfg *leaderelect.Config) {
	cfg.Store = watchedLink{cfg.Store.(link)}
}

// gets returns a plan without faults, and a count of the reads of a party since the world began.
func countGets(w *world, party string) *int {
	n := new(int)
	w.plan = func(c call) (fault, time.Duration) {
		if c.party == party && c.op == "get" {
			*n++
		}
		return none, 0
	}
	return n
}

func TestWatchingFollowerTakesOverImmediatelyAfterRelease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair(t, watched)
		after(time.Minute)
		require.NoError(t, a.stop())
		released := w.history()[len(w.history())-1].at
		after(time.Second)
		assert.True(t, b.IsLeader())
		assert.Equal(t, latency/2+latency, w.term(t, 2).began.Sub(released), "it is notified, and claims")
	})
}

func TestCrashIsFollowedByNewLeaderAfterLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.join(t, "a", watched), w.join(t, "b", func(cfg *leaderelect.Config) {
			watched(cfg)
			cfg.Rand = func() float64 { return 0.9999 }
		})
		startBoth(a, b)
		after(time.Minute)
		last := w.history()[len(w.history())-1].at
		w.cut("a", time.Hour)
		after(lease + 100*time.Millisecond)
		require.True(t, b.IsLeader())
		assert.LessOrEqual(t, w.term(t, 2).began.Sub(last), lease+50*time.Millisecond+2*latency)
	})
}

func TestWatchingFollowerDoesNotRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		reads := countGets(w, "b")
		w.join(t, "a", watched).start()
		after(time.Second)
		b := w.join(t, "b", watched)
		b.start()
		after(10 * time.Minute)
		assert.Equal(t, 1, *reads)
		assert.True(t, b.Stats().Watching)
		assert.Equal(t, 2, w.watches)
	})
}

func TestSilentWatchIsCheckedByReadingAndRestarted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.pair(t, watched)
		after(time.Minute)
		require.Equal(t, 2, w.watches)
		w.mu.Lock()
		w.silenced["b"] = true
		w.mu.Unlock()
		after(3 * retry) // a renewal, which is not reported
		require.NoError(t, a.stop())
		released := time.Now()
		after(3 * retry)
		require.True(t, b.IsLeader())
		assert.LessOrEqual(t, w.term(t, 2).began.Sub(released), retry*22/10+3*latency)
		assert.Equal(t, 3, w.watches, "a new one, for one that was found silent")
	})
}

func TestNewestEventSurvivesHangingCall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.leader(t, func(cfg *leaderelect.Config) { cfg.RetryPeriod = 4900 * time.Millisecond })
		b := w.join(t, "b", func(cfg *leaderelect.Config) { watched(cfg); patient(cfg) })
		w.mu.Lock()
		w.plan = on("b", "get", 2, stall, 0) // 4.2s after the first renewal, because the second is late
		w.mu.Unlock()
		b.start()
		after(10 * time.Second) // the second renewal is reported
		require.NoError(t, a.stop())
		after(2 * time.Second) // the release is reported
		require.False(t, b.IsLeader(), "the call hangs")
		after(1500 * time.Millisecond)
		require.True(t, b.IsLeader(), "as soon as it was given up")
	})
}

func TestBrokenWatchIsRestartedWhilePolling(t *testing.T) {
	for what, broken := range map[string]func(n int) error{
		"error": func(int) error { return errNetwork },
		"end":   func(int) error { return nil },
		"panic": func(int) error { panic("on purpose") },
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			a := w.leader(t, nil)
			tries := 0
			b := w.join(t, "b", func(cfg *leaderelect.Config) {
				cfg.Store = breakingLink{cfg.Store.(link), func() error { tries++; return broken(tries) }}
			})
			b.start()
			after(time.Minute)
			assert.InDelta(t, time.Minute/(retry*11/10), tries, 1, "not too often")
			require.NoError(t, a.stop())
			after(retry * 12 / 10)
			assert.True(t, b.IsLeader())
		})
	}
}

// breakingLink is a link whose watches break.
type breakingLink struct {
	link
	broken func() error
}

func (l breakingLink) Watch(context.Context, string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		if err := l.broken(); err != nil {
			yield(leaderelect.Entry{}, err)
		}
	}
}

func TestWatchingLeaderStopsImmediatelyWhenReplaced(t *testing.T) {
	for what, plan := range map[string]func(call) (fault, time.Duration){
		"between renewals":      nil,
		"while a renewal hangs": from("a", "update", 1, hang),
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			w.plan = plan
			a := w.join(t, "a", watched)
			a.start()
			after(retry + time.Second)
			l := w.term(t, 1).leadership
			require.NoError(t, l.Err())
			w.meddle(foreignWrite, 0)
			after(latency)
			require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseTaken)
			assert.False(t, w.term(t, 1).returned.IsZero())
			after(renew)
			leader, ok := a.Leader()
			require.True(t, ok)
			assert.Equal(t, "foreigner", leader.Identity)
			assert.Equal(t, uint64(1), a.Stats().Lost)
		})
	}
}

func TestWatchingLeaderReadsImmediatelyAfterForeignRecord(t *testing.T) {
	for what, happens := range map[string]func(w *world){
		"it was deleted":  func(w *world) { w.meddle(deleteRecord, 0) },
		"it was restored": func(w *world) { w.meddle(rollBack, 0) },
		"the same term": func(w *world) {
			w.write(record{Holder: "x", Incarnation: "x", Term: 1, Renewal: 1, LeaseMillis: 15_000})
		},
		"nothing inside": func(w *world) { w.write(record{}) },
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			a := w.join(t, "a", watched)
			a.start()
			after(2*retry + time.Second)
			l := w.term(t, 1).leadership
			w.mu.Lock()
			w.forgot = true
			w.mu.Unlock()
			happens(w)
			after(2 * latency)
			require.Error(t, l.Err())
			require.NotErrorIs(t, l.Err(), leaderelect.ErrLeaseExpired)
			assert.Equal(t, l.Err(), w.term(t, 1).cause)
		})
	}
}

func TestLateEventIsNotAForgetfulStore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		gets := countGets(w, "b")
		reads := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return *gets
		}
		a := w.leader(t, nil)
		first, err := w.load()
		require.NoError(t, err)
		late := make(chan leaderelect.Entry)
		b := w.join(t, "b", func(cfg *leaderelect.Config) { cfg.Store = lateLink{cfg.Store.(link), late} })
		b.start()
		after(4 * retry)
		before := reads()
		late <- first
		after(2 * latency)
		assert.Equal(t, before+1, reads(), "it reads at once")
		after(4 * retry)
		require.NoError(t, a.stop())
		released := time.Now()
		after(2 * retry)
		assert.Equal(t, uint64(2), w.term(t, 2).term)
		assert.Less(t, w.term(t, 2).began.Sub(released), 2*retry, "it was not trusted")
	})
}

// lateLink has a watch that reports the events that the test sends.
type lateLink struct {
	link
	late chan leaderelect.Entry
}

func (l lateLink) Watch(ctx context.Context, _ string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-l.late:
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func TestHangingWatchIsReported(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		forever := make(chan struct{})
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.Store, cfg.Sessions = stuckLink{cfg.Store.(link), forever}, post{w.sessions, "a"}
		})
		a.start()
		after(time.Minute)
		assert.True(t, a.IsLeader())
		begin, err := time.Now(), a.stop()
		require.ErrorIs(t, err, leaderelect.ErrStoreStuck)
		assert.NotContains(t, err.Error(), "Sessions", "they have ended meanwhile")
		assert.Equal(t, grace+latency, time.Since(begin), "after the release")
		close(forever)
	})
}

// stuckLink ignores the context of a watch.
type stuckLink struct {
	link
	forever chan struct{}
}

func (l stuckLink) Watch(context.Context, string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		<-l.forever
		yield(leaderelect.Entry{}, errors.New("too late"))
	}
}
