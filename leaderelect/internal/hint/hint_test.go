package hint_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/leaderelect/internal/hint"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

func second() time.Duration { return time.Second }

// output is a log that may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// sessions is Sessions in memory.
type sessions struct {
	waits atomic.Int32  // calls of Gone
	delay time.Duration // of each call of Hold
	mu    sync.Mutex
	ends  map[string]chan struct{} // of sessions that are held
}

func newSessions() *sessions { return &sessions{ends: make(map[string]chan struct{})} }

func (s *sessions) Hold(ctx context.Context, name string, held func()) error {
	time.Sleep(s.delay)
	end := make(chan struct{})
	s.mu.Lock()
	s.ends[name] = end
	s.mu.Unlock()
	held()
	select {
	case <-end:
		return errors.New("it was dropped")
	case <-ctx.Done():
		s.drop(name)
		return ctx.Err()
	}
}

func (s *sessions) Gone(ctx context.Context, name string) error {
	s.waits.Add(1)
	s.mu.Lock()
	end := s.ends[name]
	s.mu.Unlock()
	if end == nil {
		return nil
	}
	select {
	case <-end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop ends all sessions, or those of the given names.
func (s *sessions) drop(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, end := range s.ends {
		if len(names) == 0 || slices.Contains(names, name) {
			close(end)
			delete(s.ends, name)
		}
	}
}

// has returns what is in a channel, and false if nothing is.
func has[T any](c <-chan T) (v T, ok bool) {
	select {
	case v = <-c:
		return v, true
	default:
		return v, false
	}
}

func TestNilReportsNothing(t *testing.T) {
	var w *hint.Watch
	assert.Nil(t, w.News())
	assert.False(t, w.Live())
	assert.True(t, w.Stop(0))

	var p *hint.Presence
	p.Await(t.Context(), time.Hour)
	p.Want("session")
	p.Renew()
	assert.Empty(t, p.Session())
	assert.Nil(t, p.Changes())
	assert.Nil(t, p.Ends())
	assert.True(t, p.Stop(time.Second))
}

func TestBusyReceiverFindsNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := hint.StartWatch(ctx, slog.Default(), second, func(ctx context.Context, report func(lease.View)) error {
			for _, version := range []string{"1", "2", "3"} {
				report(lease.View{Version: version})
			}
			<-ctx.Done()
			return ctx.Err()
		})
		synctest.Wait()
		cancel() // the work may still drain
		synctest.Wait()
		assert.True(t, w.Live())
		v, _ := has(w.News())
		assert.Equal(t, "3", v.Version)
		_, ok := has(w.News())
		assert.False(t, ok)
		assert.True(t, w.Stop(time.Second))
		assert.False(t, w.Live())
	})
}

func TestFailedWatchIsRestartedAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		var calls atomic.Int32
		w := hint.StartWatch(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), second, func(ctx context.Context, report func(lease.View)) error {
			if calls.Add(1) == 1 {
				panic("boom")
			}
			report(lease.View{})
			<-ctx.Done()
			return ctx.Err()
		})
		synctest.Wait()
		assert.False(t, w.Live())
		assert.Contains(t, out.String(), "boom")

		time.Sleep(time.Second - 1)
		synctest.Wait()
		assert.EqualValues(t, 1, calls.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.EqualValues(t, 2, calls.Load())
		assert.True(t, w.Live())

		w.Restart()
		assert.False(t, w.Live())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.EqualValues(t, 3, calls.Load())
		assert.True(t, w.Live())
		assert.Equal(t, 1, strings.Count(out.String(), "watching the record failed"), "a restart is not a failure")
		assert.True(t, w.Stop(time.Second))
	})
}

func TestEndedWatchIsRestartedWithoutWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		var calls atomic.Int32
		w := hint.StartWatch(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), second, func(ctx context.Context, _ func(lease.View)) error {
			if calls.Add(1) > 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		time.Sleep(time.Second)
		synctest.Wait()
		assert.EqualValues(t, 2, calls.Load())
		assert.True(t, w.Stop(time.Second))
		assert.Empty(t, out.String())
	})
}

func TestStopWaitsForHangingCallsUpToLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := hint.StartWatch(t.Context(), slog.Default(), second, func(context.Context, func(lease.View)) error {
			<-release
			return nil
		})
		p := hint.StartPresence(t.Context(), hanging{newSessions(), release}, slog.Default(), second)
		p.Want("session")
		synctest.Wait()
		start := time.Now()
		assert.False(t, w.Stop(3*time.Second))
		assert.False(t, p.Stop(4*time.Second))
		assert.Equal(t, 7*time.Second, time.Since(start))
		close(release)
		assert.True(t, w.Stop(time.Second))
		synctest.Wait()
		assert.True(t, p.Stop(time.Second))
	})
}

// hanging is sessions of which Gone hangs until release is closed.
type hanging struct {
	*sessions
	release chan struct{}
}

func (h hanging) Gone(context.Context, string) error {
	<-h.release
	return errors.New("too late")
}

func TestSessionIsHeldUntilRenewedOrLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		held := newSessions()
		held.delay = time.Second
		p := hint.StartPresence(ctx, held, slog.New(slog.DiscardHandler), second)
		p.Await(ctx, time.Hour)
		cancel() // the work may still drain
		synctest.Wait()
		first := p.Session()
		assert.NotEmpty(t, first)
		has(p.Changes())

		p.Renew()
		assert.Empty(t, p.Session())
		_, changed := has(p.Changes())
		assert.True(t, changed)
		time.Sleep(time.Second)
		synctest.Wait()
		second := p.Session()
		assert.NotEmpty(t, second)
		assert.NotEqual(t, first, second)
		_, changed = has(p.Changes())
		assert.True(t, changed)
		assert.NoError(t, held.Gone(t.Context(), first))

		held.drop()
		synctest.Wait()
		assert.Empty(t, p.Session())
		_, changed = has(p.Changes())
		assert.True(t, changed)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.NotEmpty(t, p.Session())
		assert.True(t, p.Stop(time.Second))
		assert.Empty(t, p.Session())
	})
}

func TestEndOfWantedSessionIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := newSessions()
		hold := func(name string) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = held.Hold(ctx, name, func() {}) }()
			synctest.Wait()
			return cancel
		}
		endA, endB := hold("a"), hold("b")
		p := hint.StartPresence(t.Context(), held, slog.New(slog.DiscardHandler), second)
		p.Want("a")
		p.Want("b")
		endA()
		synctest.Wait()
		waits := held.waits.Load()
		p.Want("b")
		synctest.Wait()
		assert.Equal(t, waits, held.waits.Load(), "the call continues")
		_, ok := has(p.Ends())
		assert.False(t, ok, "it is not wanted anymore")

		endB()
		synctest.Wait()
		session, _ := has(p.Ends())
		assert.Equal(t, "b", session)
		p.Want("b")
		time.Sleep(time.Hour)
		_, ok = has(p.Ends())
		assert.False(t, ok, "it was reported")

		p.Want("")
		p.Want("b")
		synctest.Wait()
		session, _ = has(p.Ends())
		assert.Equal(t, "b", session, "it is wanted again")
		assert.True(t, p.Stop(time.Second))
	})
}

// failing is sessions that panic until the given number of calls were made.
type failing struct {
	*sessions
	left map[string]int
}

func (f failing) Hold(ctx context.Context, name string, held func()) error {
	if f.left["hold"]--; f.left["hold"] >= 0 {
		panic("hold fails")
	}
	return f.sessions.Hold(ctx, name, held)
}

func (f failing) Gone(ctx context.Context, name string) error {
	if f.left["gone"]--; f.left["gone"] >= 0 {
		panic("gone fails")
	}
	return f.sessions.Gone(ctx, name)
}

func TestFailedSessionsAreRetriedAfterPause(t *testing.T) {
	for _, method := range []string{"hold", "gone"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out output
				held := failing{newSessions(), map[string]int{method: 5}}
				p := hint.StartPresence(t.Context(), held, slog.New(slog.NewTextHandler(&out, nil)), second)
				p.Await(t.Context(), time.Hour)
				p.Want("a session that has ended")
				works := func() bool { return p.Session() != "" && len(p.Ends()) == 1 }
				time.Sleep(3 * time.Second) // a call of Want may cut one pause short
				synctest.Wait()
				assert.False(t, works())
				assert.Contains(t, out.String(), method+" fails")
				time.Sleep(2 * time.Second)
				synctest.Wait()
				assert.True(t, works())
				assert.True(t, p.Stop(time.Second))
			})
		})
	}
}
