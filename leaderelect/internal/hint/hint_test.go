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
	if got := w.News(); got != nil {
		t.Errorf("w.News() = %v, want nil", got)
	}
	if w.Live() {
		t.Error("w.Live() is true")
	}
	if !w.Stop(0) {
		t.Error("w.Stop(0) is false")
	}

	var p *hint.Presence
	p.Await(t.Context(), time.Hour)
	p.Want("session")
	p.Renew()
	if got := p.Session(); got != "" {
		t.Errorf(`p.Session() = %q, want ""`, got)
	}
	if got := p.Changes(); got != nil {
		t.Errorf("p.Changes() = %v, want nil", got)
	}
	if got := p.Ends(); got != nil {
		t.Errorf("p.Ends() = %v, want nil", got)
	}
	if !p.Stop(time.Second) {
		t.Error("p.Stop(time.Second) is false")
	}
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
		if !w.Live() {
			t.Error("w.Live() is false")
		}
		v, _ := has(w.News())
		if v.Version != "3" {
			t.Errorf("v.Version = %q, want %q", v.Version, "3")
		}
		_, ok := has(w.News())
		if ok {
			t.Error("ok is true")
		}
		if !w.Stop(time.Second) {
			t.Error("w.Stop(time.Second) is false")
		}
		if w.Live() {
			t.Error("w.Live() is true")
		}
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
		if w.Live() {
			t.Error("w.Live() is true")
		}
		if got := out.String(); !strings.Contains(got, "boom") {
			t.Errorf("out.String() = %q, want it to contain %q", got, "boom")
		}

		time.Sleep(time.Second - 1)
		synctest.Wait()
		if got := calls.Load(); got != 1 {
			t.Errorf("calls.Load() = %v, want 1", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := calls.Load(); got != 2 {
			t.Errorf("calls.Load() = %v, want 2", got)
		}
		if !w.Live() {
			t.Error("w.Live() is false")
		}

		w.Restart()
		if w.Live() {
			t.Error("w.Live() is true")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := calls.Load(); got != 3 {
			t.Errorf("calls.Load() = %v, want 3", got)
		}
		if !w.Live() {
			t.Error("w.Live() is false")
		}
		if got := strings.Count(out.String(), "watching the record failed"); got != 1 {
			t.Errorf(`a restart is not a failure: strings.Count(out.String(), "watching the record failed") = %v, want 1`, got)
		}
		if !w.Stop(time.Second) {
			t.Error("w.Stop(time.Second) is false")
		}
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
		if got := calls.Load(); got != 2 {
			t.Errorf("calls.Load() = %v, want 2", got)
		}
		if !w.Stop(time.Second) {
			t.Error("w.Stop(time.Second) is false")
		}
		if got := out.String(); got != "" {
			t.Errorf(`out.String() = %q, want ""`, got)
		}
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
		if w.Stop(3 * time.Second) {
			t.Error("w.Stop(3*time.Second) is true")
		}
		if p.Stop(4 * time.Second) {
			t.Error("p.Stop(4*time.Second) is true")
		}
		if got := time.Since(start); got != 7*time.Second {
			t.Errorf("time.Since(start) = %v, want %v", got, 7*time.Second)
		}
		close(release)
		if !w.Stop(time.Second) {
			t.Error("w.Stop(time.Second) is false")
		}
		synctest.Wait()
		if !p.Stop(time.Second) {
			t.Error("p.Stop(time.Second) is false")
		}
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
		if first == "" {
			t.Error("first is empty")
		}
		has(p.Changes())

		p.Renew()
		if got := p.Session(); got != "" {
			t.Errorf(`p.Session() = %q, want ""`, got)
		}
		_, changed := has(p.Changes())
		if !changed {
			t.Error("changed is false")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		second := p.Session()
		if second == "" {
			t.Error("second is empty")
		}
		if second == first {
			t.Errorf("second = %q, want another", second)
		}
		_, changed = has(p.Changes())
		if !changed {
			t.Error("changed is false")
		}
		if err := held.Gone(t.Context(), first); err != nil {
			t.Errorf("held.Gone(ctx, first): %v", err)
		}

		held.drop()
		synctest.Wait()
		if got := p.Session(); got != "" {
			t.Errorf(`p.Session() = %q, want ""`, got)
		}
		_, changed = has(p.Changes())
		if !changed {
			t.Error("changed is false")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p.Session() == "" {
			t.Error("p.Session() is empty")
		}
		if !p.Stop(time.Second) {
			t.Error("p.Stop(time.Second) is false")
		}
		if got := p.Session(); got != "" {
			t.Errorf(`p.Session() = %q, want ""`, got)
		}
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
		if got := held.waits.Load(); got != waits {
			t.Errorf("the call continues: held.waits.Load() = %v, want %v", got, waits)
		}
		_, ok := has(p.Ends())
		if ok {
			t.Error("it is not wanted anymore: ok is true")
		}

		endB()
		synctest.Wait()
		session, _ := has(p.Ends())
		if session != "b" {
			t.Errorf("session = %q, want %q", session, "b")
		}
		p.Want("b")
		time.Sleep(time.Hour)
		_, ok = has(p.Ends())
		if ok {
			t.Error("it was reported: ok is true")
		}

		p.Want("")
		p.Want("b")
		synctest.Wait()
		session, _ = has(p.Ends())
		if session != "b" {
			t.Errorf("it is wanted again: session = %q, want %q", session, "b")
		}
		if !p.Stop(time.Second) {
			t.Error("p.Stop(time.Second) is false")
		}
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
				if works() {
					t.Error("works() is true")
				}
				if got := out.String(); !strings.Contains(got, method+" fails") {
					t.Errorf("out.String() = %q, want it to contain %q", got, method+" fails")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if !works() {
					t.Error("works() is false")
				}
				if !p.Stop(time.Second) {
					t.Error("p.Stop(time.Second) is false")
				}
			})
		})
	}
}
