package leaderelect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
)

const key = "lease"

// The durations of the tests: the defaults.
const (
	lease   = 15 * time.Second
	renew   = 10 * time.Second
	retry   = 2 * time.Second
	request = 2500 * time.Millisecond
	grace   = 5 * time.Second // that calls have at the end of a run
)

// stepDown is how long the work may continue after its lease is lost.
var stepDown = func() time.Duration {
	leaseNanos := float64(lease)
	return time.Duration(leaseNanos/1.2) - renew
}()

// world is a network with parties that compete. It observes them and records violations. It lives in a bubble.
type world struct {
	*network
	begin    time.Time
	sessions *sessions

	// network.mu guards the following. Parties are only added, by the test itself, which reads them without it.
	parties    []*party
	terms      []*termLog
	violations []string
	acts       bool // the work acts, see act
	register   fence.Register[string]
	accepted   uint64 // the greatest term of which the register has taken something
	refused    int    // writes that came too late
	early      bool   // a leader that lives may be replaced, if its work and that of the next are fenced
}

// party is a process with an elector.
type party struct {
	*leaderelect.Elector
	world  *world
	name   string
	fenced bool // Config.Fenced
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when err is set; nil before the first start
	err    error         // what the elector returned

	// world.mu guards the following.

	// behave is the work. If it is nil, the work runs until its context ends.
	behave func(ctx context.Context, l *leaderelect.Leadership) error

	open      *termLog             // the term whose work runs
	paired    int                  // OnStartedLeading minus OnStoppedLeading
	inside    bool                 // OnStartedLeading or OnStoppedLeading runs
	reporting bool                 // OnNewLeader runs
	hang      func() time.Duration // how long OnNewLeader takes; nil is no time
	leaders   []leaderelect.Leader
}

// termLog is what happened in a term.
type termLog struct {
	party      string
	term       uint64
	leadership *leaderelect.Leadership
	began      time.Time
	returned   time.Time // zero while the work runs
	stopped    bool      // OnStoppedLeading was called
	paused     bool      // its process was stopped while it led
	cause      error     // that OnStoppedLeading got
}

func newWorld(t testing.TB) *world {
	w := &world{network: newNetwork(), begin: time.Now(), sessions: newSessions()}
	w.onCommit = w.checkCommitLocked
	w.onPause = w.pauseLocked
	t.Cleanup(w.end) // so that a test that fails says why, and not that goroutines are left
	return w
}

// inWorld runs a test in a bubble, with a world, and checks its invariants at the end.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f(t, w)
		w.finish(t)
	})
}

// subWorld is inWorld for a subtest.
func subWorld(t *testing.T, name string, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, f) })
}

// end stops all parties.
func (w *world) end() {
	w.heal()
	w.sessions.heal()
	for _, p := range w.parties {
		if p.done != nil {
			p.cancel(context.Canceled)
		}
	}
	for _, p := range w.parties {
		if p.done != nil {
			<-p.done
		}
	}
}

// join adds a party that does not run yet. change may be nil.
func (w *world) join(t testing.TB, name string, change func(*leaderelect.Config)) *party {
	t.Helper()
	p := &party{world: w, name: name}
	cfg := leaderelect.Config{
		Store:            link{network: w.network, party: name, slow: 1},
		Key:              key,
		Identity:         name,
		ReleaseOnCancel:  true,
		OnStartedLeading: p.onStarted,
		OnStoppedLeading: p.onStopped,
		OnNewLeader:      p.onNewLeader,
		Rand:             func() float64 { return 0.5 },
		Logger:           slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	e, err := leaderelect.New(cfg)
	require.NoError(t, err)
	p.Elector, p.fenced = e, cfg.Fenced
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parties = append(w.parties, p)
	return p
}

// mayMeet reports whether p and other may work at the same time, because both are fenced.
func (p *party) mayMeet(other *party) bool { return p.world.early && p.fenced && other.fenced }

// patient gives each call half of RenewDeadline, for tests of slow replies.
func patient(cfg *leaderelect.Config) { cfg.RequestTimeout = renew / 2 }

// unhurried lets the work drain for as long as it takes.
func unhurried(cfg *leaderelect.Config) { cfg.DrainTimeout = -1 }

// start runs the elector of p.
func (p *party) start() { p.startWith(p.Run) }

// startWith runs f, which is Run or RunOnce.
func (p *party) startWith(f func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		p.err = f(ctx)
	}()
}

// startBoth starts a, which leads if nothing is wrong, and a second later b, which follows.
func startBoth(a, b *party) {
	a.start()
	after(time.Second)
	b.start()
}

// leader adds a party that runs, and leads if nothing is wrong.
func (w *world) leader(t testing.TB, change func(*leaderelect.Config)) *party {
	t.Helper()
	a := w.join(t, "a", change)
	a.start()
	after(time.Second)
	return a
}

// pair adds two parties with the same change, and starts both.
func (w *world) pair(t testing.TB, change func(*leaderelect.Config)) (a, b *party) {
	t.Helper()
	a, b = w.join(t, "a", change), w.join(t, "b", change)
	startBoth(a, b)
	return a, b
}

// stop cancels and waits for the elector to return.
func (p *party) stop() error {
	p.cancel(context.Canceled)
	<-p.done
	return p.err
}

// at returns t as the time since the world began.
func (w *world) at(t time.Time) time.Duration { return t.Sub(w.begin) }

// after lets d pass, including all events at its end.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// finish stops all parties and checks the invariants of the end of every test.
func (w *world) finish(t testing.TB) {
	t.Helper()
	w.end()
	w.checkInvariants(t)
	w.sessions.mu.Lock()
	defer w.sessions.mu.Unlock()
	require.Zero(t, w.sessions.odd, "AwaitEnd was called for sessions that were never held")
	for _, p := range w.parties {
		require.Nil(t, p.open, "%s returned before its work", p.name)
		require.Zero(t, p.paired, "callbacks of %s come in pairs", p.name)
		require.False(t, p.IsLeader(), p.name)
	}
}

// errExpected is the error of work that fails on purpose.
var errExpected = errors.New("failed on purpose")

// checkInvariants requires that no invariant was violated. Violations that depend on time are noted when they happen.
func (w *world) checkInvariants(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.violations)

	if w.forgot {
		return
	}
	var before record
	for i, c := range w.committed {
		rec := c.rec()
		if c.party == "tool" {
			before = record{Term: c.entry.Term, Incarnation: "tool", Holder: "tool"}
			continue
		}
		switch {
		case rec.Term != c.entry.Term:
			t.Fatalf("write %d has term %d beside %d in the record", i, c.entry.Term, rec.Term)
		case i == 0, c.party == "foreigner":
		case rec.Term == before.Term && rec.Incarnation != before.Incarnation:
			t.Fatalf("write %d keeps term %d of another", i, rec.Term)
		case rec.Term == before.Term && rec.Renewal <= before.Renewal:
			t.Fatalf("write %d has the number %d after %d", i, rec.Renewal, before.Renewal)
		case rec.Term == before.Term && before.Holder == "":
			t.Fatalf("write %d revives term %d, which was released", i, rec.Term)
		case rec.Term != before.Term && rec.Term != before.Term+1:
			t.Fatalf("write %d has term %d after %d", i, rec.Term, before.Term)
		case rec.Term != before.Term && rec.Holder == "":
			t.Fatalf("write %d begins term %d without a holder", i, rec.Term)
		}
		before = rec
	}
}

// checkCommitLocked is called for every write.
func (w *world) checkCommitLocked(c commit) {
	for _, log := range w.terms {
		if log.party == c.party && log.term == c.entry.Term && !log.stopped && c.releases() {
			w.violateLocked("%s releases term %d before OnStoppedLeading", c.party, c.entry.Term)
		}
	}
	for _, p := range w.parties {
		later := func(l leaderelect.Leader) bool { return l.Term > c.entry.Term }
		if p.name == c.party && c.releases() && slices.ContainsFunc(p.leaders, later) {
			w.violateLocked("%s releases term %d after it has seen a later one", p.name, c.entry.Term)
		}
	}
}

func (w *world) violateLocked(format string, args ...any) {
	w.violations = append(w.violations, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (p *party) onStarted(ctx context.Context, l *leaderelect.Leadership) error {
	w := p.world
	w.mu.Lock()
	log := &termLog{party: p.name, term: l.Term(), leadership: l, began: time.Now()}
	for _, other := range w.parties {
		if other.open != nil && !other.open.paused && !p.mayMeet(other) {
			w.violateLocked("%s starts term %d while %s works in term %d", p.name, l.Term(), other.name, other.open.term)
		}
	}
	remembered := !w.forgot || w.mayForget != nil // whatever the store has forgotten, all candidates have seen
	if n := len(w.terms); n > 0 && remembered && !w.early && w.terms[n-1].term >= l.Term() {
		w.violateLocked("%s starts term %d after term %d", p.name, l.Term(), w.terms[n-1].term)
	}
	claimed := func(c commit) bool { return c.party == p.name && c.entry.Term == l.Term() && !c.releases() }
	if !slices.ContainsFunc(w.committed, claimed) {
		w.violateLocked("%s starts term %d, which it has not claimed", p.name, l.Term())
	}
	p.enterLocked("OnStartedLeading")
	p.paired++
	p.open = log
	w.terms = append(w.terms, log)
	behave, acts := p.behave, w.acts
	w.mu.Unlock()
	if acts {
		done := make(chan struct{})
		defer close(done)
		go p.act(l, done)
	}

	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		log.returned = time.Now()
		p.open, p.inside = nil, false
	}()
	if behave != nil {
		return behave(ctx, l)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (p *party) onStopped(l *leaderelect.Leadership, cause error) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	p.enterLocked("OnStoppedLeading")
	p.inside = false
	p.paired--
	i := slices.IndexFunc(w.terms, func(log *termLog) bool { return log.leadership == l })
	if i < 0 || w.terms[i].returned.IsZero() || w.terms[i].stopped {
		w.violateLocked("%s stopped in term %d, which it did not lead", p.name, l.Term())
		return
	}
	w.terms[i].stopped, w.terms[i].cause = true, cause
}

func (p *party) onNewLeader(l leaderelect.Leader) {
	w := p.world
	w.mu.Lock()
	if p.reporting {
		w.violateLocked("OnNewLeader of %s is called during OnNewLeader", p.name)
	}
	if n := len(p.leaders); l.Identity == "" ||
		n > 0 && p.leaders[n-1].Term == l.Term && p.leaders[n-1].Incarnation == l.Incarnation && !w.forgot && !w.scribbled {
		w.violateLocked("%s: OnNewLeader reports %+v", p.name, l)
	}
	p.leaders = append(p.leaders, l)
	p.reporting = true
	hang := p.hang
	w.mu.Unlock()
	if hang != nil {
		time.Sleep(hang())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.reporting = false
}

// enterLocked notes that a callback of a term begins.
func (p *party) enterLocked(callback string) {
	if p.inside {
		p.world.violateLocked("%s of %s is called during another callback", callback, p.name)
	}
	p.inside = true
}

// term returns the log of the n-th term, from 1. It fails the test if there is none.
func (w *world) term(t testing.TB, n int) termLog {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.GreaterOrEqual(t, len(w.terms), n, "terms that were led")
	return *w.terms[n-1]
}

// led returns how many terms were led.
func (w *world) led() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.terms)
}

// actPeriod is the time from one action of a leader to the next.
const actPeriod = 1100 * time.Millisecond

// act is work with effects outside of the process. It asks whether it leads, and sends a write with its term to a fenced
// register. The write is in flight for a while, sometimes for longer than a lease.
//
// Even if processes are suspended, two of them must never lead at the same time. The register must refuse
// every write of an earlier leader.
func (p *party) act(l *leaderelect.Leadership, done <-chan struct{}) {
	w := p.world
	for n := 0; ; n++ {
		w.mu.Lock()
		leads := l.Err() == nil && !time.Now().Before(w.paused[p.name])
		for _, other := range w.parties {
			if leads && other != p && other.IsLeader() && !p.mayMeet(other) {
				w.violateLocked("%s acts in term %d while %s leads", p.name, l.Term(), other.name)
			}
		}
		w.mu.Unlock()
		if leads {
			underWay := time.Duration(n%7) * 3 * time.Second
			time.AfterFunc(underWay, func() { w.arrive(p.name, l.Term()) })
		}
		select {
		case <-done:
			return
		case <-time.After(actPeriod):
		}
	}
}

// arrive handles the write of a leader at the register.
func (w *world) arrive(party string, term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.register.Write(term, party)
	switch {
	case err == nil && term < w.accepted:
		w.violateLocked("the register takes term %d of %s after term %d", term, party, w.accepted)
	case err != nil && term >= w.accepted:
		w.violateLocked("the register refuses term %d of %s after term %d", term, party, w.accepted)
	case err == nil:
		w.accepted = term
	default:
		w.refused++
	}
}

// refusals returns how many writes the register has refused.
func (w *world) refusals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// pauseLocked stops the timers of a process for d. Timers that become due in the meantime fire after that.
func (w *world) pauseLocked(party string, d time.Duration) {
	for _, p := range w.parties {
		if p.name == party && p.open != nil {
			p.open.paused = true
			l := p.open.leadership
			l.StopTimer()
			time.AfterFunc(d, l.FireTimer)
		}
	}
}

// mayForgetLocked reports whether so many candidates have seen the current term. The others cannot notice if the store loses it.
func (w *world) mayForgetLocked(candidates int) bool {
	seen := 0
	for _, p := range w.parties {
		if leader, ok := p.Leader(); ok && w.entry != nil && leader.Term == w.entry.Term {
			seen++
		}
	}
	return seen == candidates
}
