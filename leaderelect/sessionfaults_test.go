package leaderelect_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// sessions is leaderelect.Sessions with its own network.
type sessions struct {
	mu sync.Mutex
	// mu guards the following.
	held   map[string]session
	plan   func(op, party string) sessionFault // nil is none
	ever   map[string]bool                     // sessions that were ever held
	asked  int                                 // calls of AwaitEnd
	odd    int                                 // calls of AwaitEnd for a session that was never held
	healed chan struct{}
}

// session is a session that is held.
type session struct {
	party string
	ended chan struct{}
}

// sessionFault is a fault of a call of sessions.
type sessionFault int

const (
	sessionFine  sessionFault = iota
	sessionError              // an error at once
	sessionStall              // neither an effect nor a reply
	sessionHang               // the same, and the end of the context is ignored
	sessionSlow               // it takes a second
	sessionLie                // it says that it is so, and it is not
	endOfSessionFaults
)

var errSession = errors.New("the sessions have failed")

func newSessions() *sessions {
	return &sessions{held: make(map[string]session), ever: make(map[string]bool), healed: make(chan struct{})}
}

// heal ends all faults, including those of calls in flight.
func (m *sessions) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = nil
	close(m.healed)
	m.healed = make(chan struct{})
}

// do makes calls fail from now on.
func (m *sessions) do(plan func(op, party string) sessionFault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = plan
}

// drop cuts the connections on which a party holds its sessions.
func (m *sessions) drop(party string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, held := range m.held {
		if held.party == party {
			delete(m.held, name)
			close(held.ended)
		}
	}
}

// of returns the sessions that a party holds.
func (m *sessions) of(party string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, held := range m.held {
		if held.party == party {
			names = append(names, name)
		}
	}
	return names
}

// post is the connection of one party to the sessions.
type post struct {
	*sessions
	party string
}

// present gives a party sessions.
func present(w *world, party string) func(*leaderelect.Config) {
	return func(cfg *leaderelect.Config) {
		cfg.Sessions, cfg.Fenced = post{w.sessions, party}, true
	}
}

// begin makes a call with the fault that the plan has for it.
func (p post) begin(ctx context.Context, op string) (sessionFault, error) {
	p.mu.Lock()
	f := sessionFine
	if p.plan != nil {
		f = p.plan(op, p.party)
	}
	healed := p.healed
	if op == "end" {
		p.asked++
	}
	p.mu.Unlock()
	switch f {
	case sessionError:
		return f, errSession
	case sessionStall:
		<-ctx.Done()
		return f, ctx.Err()
	case sessionHang:
		<-healed
		return f, errSession
	case sessionSlow:
		return f, wait.Sleep(ctx, time.Second)
	}
	return f, wait.Sleep(ctx, latency/2)
}

func (p post) Hold(ctx context.Context, name string, held func()) error {
	if _, err := p.begin(ctx, "hold"); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.mu.Lock()
	if p.ever[name] {
		panic("a session was used twice")
	}
	p.held[name], p.ever[name] = session{p.party, ended}, true
	p.mu.Unlock()
	held()
	select {
	case <-ended:
		return errSession
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[name].ended == ended {
		delete(p.held, name)
		close(ended)
	}
	return ctx.Err()
}

func (p post) AwaitEnd(ctx context.Context, name string) error {
	p.mu.Lock()
	if !p.ever[name] {
		p.odd++
	}
	p.mu.Unlock()
	f, err := p.begin(ctx, "end")
	if err != nil || f == sessionLie {
		return err
	}
	p.mu.Lock()
	ended := p.held[name].ended
	p.mu.Unlock()
	if ended != nil {
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return wait.Sleep(ctx, latency/2)
}

// sessionTrouble is a fault of sessions in a schedule.
type sessionTrouble int

const (
	absent   sessionTrouble = iota
	honest                  // calls fail, hang, and are late; but a session ends with its process, or after a release, only
	lossy                   // sessions are lost at any time, and said to be lost
	unfenced                // the same, and the work is not said to be fenced
	mixed                   // the same, and some of them say so: a deployment that is under way
)

// troubleSessions makes sessions fail at random.
func (w *world) troubleSessions(chance *looptest.Chance, s sessionTrouble) {
	if s == absent {
		return
	}
	faults := endOfSessionFaults
	if s == honest {
		faults = sessionLie
	}
	odds := chance.Float() / 2
	w.sessions.do(func(string, string) sessionFault {
		if chance.Float() > odds {
			return sessionFine
		}
		return sessionFault(chance.UpTo(int(faults)))
	})
	if s == honest {
		return
	}
	w.early = s == lossy || s == mixed
	for _, p := range w.parties {
		for range 2 + chance.UpTo(8) {
			time.AfterFunc(chance.Duration(sessionsAreLost), func() { w.sessions.drop(p.name) })
		}
	}
}

// sessionsAreLost is how long troubleSessions makes sessions get lost, from the beginning of a schedule.
const sessionsAreLost = 90 * time.Second

// takenEarly returns how many leases were taken before they had expired and without a release.
func (w *world) takenEarly() (n int) {
	history := w.history()
	for i, c := range history {
		if i == 0 || c.entry.Term != history[i-1].entry.Term+1 || c.party == "foreigner" || c.party == "backup" {
			continue
		}
		before := history[i-1]
		was := before.rec()
		if was.Incarnation == c.rec().Incarnation { // also from a backup
			continue
		}
		if was.Holder != "" && was.Session != "" && c.at.Sub(before.at) < lease*2/3 {
			n++
		}
	}
	return n
}

func TestNoScheduleOfSessionFaultsMakesTwoLeaders(t *testing.T) {
	t.Parallel()
	looptest.Lanes(t, effort(16, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), honest)
		w.requireLeader(t)
		w.finish(t)
	})
}

func TestNoScheduleOfLostSessionsMakesTwoLeadersWithoutFenced(t *testing.T) {
	t.Parallel()
	looptest.Lanes(t, effort(16, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), unfenced)
		after(sessionsAreLost - time.Since(w.begin)) // they are lost no more
		w.requireLeader(t)
		assert.Zero(t, w.takenEarly())
		w.finish(t)
	})
}

func TestNoScheduleOfLostSessionsGetsStaleWritePastFence(t *testing.T) {
	t.Parallel()
	var early, refused atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d leases taken early, %d writes refused", early.Load(), refused.Load())
		assert.True(t, early.Load() > 0 && refused.Load() > 0 || testing.Short())
	})
	enough := effort(16, 10_000)
	looptest.Lanes(t, 10*enough, func(t *testing.T, seed int) {
		if seed >= enough && (early.Load() > 0 && refused.Load() > 0 || testing.Short()) {
			return // more schedules are for a run in which no lease was taken early yet
		}
		w := schedule(t, uint64(seed), lossy)
		after(sessionsAreLost - time.Since(w.begin)) // they are lost no more
		w.requireLeader(t)
		early.Add(int64(w.takenEarly()))
		w.finish(t)
		refused.Add(int64(w.refusals()))
	})
}

func TestNoScheduleOfLostSessionsMakesTwoLeadersOneUnfenced(t *testing.T) {
	t.Parallel()
	looptest.Lanes(t, effort(30, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), mixed)
		after(sessionsAreLost - time.Since(w.begin)) // they are lost no more
		w.requireLeader(t)
		w.finish(t)
	})
}
