package leaderelect_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// marks is a sentinel on a network of its own.
type marks struct {
	mu sync.Mutex
	// mu guards the following.
	held   map[string]mark
	plan   func(op, party string) markFault // nil is none
	ever   map[string]bool                  // marks that were ever held
	asked  int                              // calls of Gone
	odd    int                              // calls of Gone for a mark that nobody has held
	healed chan struct{}
}

// mark is a mark that is held.
type mark struct {
	party string
	ended chan struct{}
}

// markFault is what happens to a call of a sentinel.
type markFault int

const (
	markFine  markFault = iota
	markError           // an error at once
	markStall           // neither an effect nor a reply
	markHang            // the same, and the end of the context is ignored
	markSlow            // it takes a second
	markLie             // it says that it is so, and it is not
	endOfMarkFaults
)

var errMark = errors.New("the sentinel has failed")

func newMarks() *marks {
	return &marks{held: make(map[string]mark), ever: make(map[string]bool), healed: make(chan struct{})}
}

// heal ends all faults, also those under way.
func (m *marks) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = nil
	close(m.healed)
	m.healed = make(chan struct{})
}

// do makes calls fail from now on.
func (m *marks) do(plan func(op, party string) markFault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = plan
}

// drop cuts the connections on which a party holds its marks.
func (m *marks) drop(party string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, held := range m.held {
		if held.party == party {
			delete(m.held, name)
			close(held.ended)
		}
	}
}

// of returns the marks that a party holds.
func (m *marks) of(party string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, held := range m.held {
		if held.party == party {
			names = append(names, name)
		}
	}
	return names
}

// post is a sentinel as one party reaches it.
type post struct {
	*marks
	party string
}

// marked gives a party a sentinel.
func marked(w *world, party string) func(*leaderelect.Config) {
	return func(cfg *leaderelect.Config) {
		cfg.Sentinel, cfg.FencedWork = post{w.marks, party}, true
	}
}

// begin makes a call in the way that the plan has for it.
func (p post) begin(ctx context.Context, op string) (markFault, error) {
	p.mu.Lock()
	f := markFine
	if p.plan != nil {
		f = p.plan(op, p.party)
	}
	healed := p.healed
	if op == "gone" {
		p.asked++
	}
	p.mu.Unlock()
	switch f {
	case markError:
		return f, errMark
	case markStall:
		<-ctx.Done()
		return f, ctx.Err()
	case markHang:
		<-healed
		return f, errMark
	case markSlow:
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
		panic("a mark was used twice")
	}
	p.held[name], p.ever[name] = mark{p.party, ended}, true
	p.mu.Unlock()
	held()
	select {
	case <-ended:
		return errMark
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

func (p post) Gone(ctx context.Context, name string) error {
	p.mu.Lock()
	if !p.ever[name] {
		p.odd++
	}
	p.mu.Unlock()
	f, err := p.begin(ctx, "gone")
	if err != nil || f == markLie {
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

// sentinels is what a schedule has of them.
type sentinels int

const (
	unmarked sentinels = iota
	honest             // calls fail, hang, and are late; but a mark ends with its process, or after a release, only
	lossy              // marks are lost at any time, and said to be lost
	unfenced           // the same, and the work is not said to be fenced
	mixed              // the same, and some of them say so: a deployment that is under way
)

// troubleMarks has sentinels fail by chance.
func (w *world) troubleMarks(chance *chance, s sentinels) {
	if s == unmarked {
		return
	}
	faults := endOfMarkFaults
	if s == honest {
		faults = markLie
	}
	odds := chance.float() / 2
	w.marks.do(func(string, string) markFault {
		if chance.float() > odds {
			return markFine
		}
		return markFault(chance.upTo(int(faults)))
	})
	if s == honest {
		return
	}
	w.early = s == lossy || s == mixed
	for _, p := range w.parties {
		for range 2 + chance.upTo(8) {
			time.AfterFunc(chance.duration(marksAreLost), func() { w.marks.drop(p.name) })
		}
	}
}

// marksAreLost is until when troubleMarks has marks lost, from the beginning of a schedule.
const marksAreLost = 90 * time.Second

// takenEarly returns how many leases were taken before their end, from one who had not released.
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
		if was.Holder != "" && was.Mark != "" && c.at.Sub(before.at) < lease*2/3 {
			n++
		}
	}
	return n
}

func TestNoScheduleOfFaultsOfASentinelMakesTwoLeadersWhileMarksEndWithTheirProcesses(t *testing.T) {
	t.Parallel()
	lanes(t, effort(60, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), honest)
		w.requireLeader(t)
		w.finish(t)
	})
}

func TestNoScheduleOfLostMarksMakesTwoLeadersWithoutFencedWork(t *testing.T) {
	t.Parallel()
	lanes(t, effort(60, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), unfenced)
		after(marksAreLost - time.Since(w.begin)) // they are lost no more
		w.requireLeader(t)
		assert.Zero(t, w.takenEarly())
		w.finish(t)
	})
}

func TestNoScheduleOfLostMarksGetsAWriteOfThePastPastTheFence(t *testing.T) {
	t.Parallel()
	var early, refused atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d leases taken early, %d writes refused", early.Load(), refused.Load())
		assert.True(t, early.Load() > 0 && refused.Load() > 0 || testing.Short())
	})
	lanes(t, effort(60, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), lossy)
		after(marksAreLost - time.Since(w.begin)) // they are lost no more
		w.requireLeader(t)
		early.Add(int64(w.takenEarly()))
		w.finish(t)
		refused.Add(int64(w.refusals()))
	})
}

func TestNoScheduleOfLostMarksMakesTwoLeadersOfWhichOneIsNotFenced(t *testing.T) {
	t.Parallel()
	lanes(t, effort(120, 10_000), func(t *testing.T, seed int) {
		w := schedule(t, uint64(seed), mixed)
		after(marksAreLost - time.Since(w.begin)) // they are lost no more
		w.requireLeader(t)
		w.finish(t)
	})
}

func TestMarksInMemory(t *testing.T) {
	ctx := t.Context()
	s := leaderelect.NewMemoryStore()
	require.NoError(t, s.Gone(ctx, "a"), "nobody holds it")

	hold := func(ctx context.Context, mark string) (held chan struct{}, end chan error) {
		held, end = make(chan struct{}), make(chan error, 1)
		go func() { end <- s.Hold(ctx, mark, func() { close(held) }) }() // the test waits for its end
		<-held
		return held, end
	}
	_, endA := hold(ctx, "a")
	short, cut := context.WithCancel(context.Background())
	_, endB := hold(short, "b")
	require.ErrorContains(t, s.Hold(ctx, "a", func() { t.Error("it is held twice") }), "it is held")

	over, stop := context.WithCancel(ctx)
	stop()
	require.ErrorIs(t, s.Gone(over, "a"), context.Canceled)

	gone := make(chan error, 1)
	go func() { gone <- s.Gone(ctx, "b") }() // the test waits for its end
	cut()
	require.ErrorIs(t, <-endB, context.Canceled)
	require.NoError(t, <-gone)

	go func() { gone <- s.Gone(ctx, "a") }() // the same
	select {
	case <-gone:
		t.Fatal("it is held")
	default:
	}
	s.DropMarks()
	require.ErrorContains(t, <-endA, "it was dropped")
	require.NoError(t, <-gone)
}

func TestAMarkInMemoryThatWasDroppedAndIsHeldByAnotherStaysHeld(t *testing.T) {
	for range 20 { // which end the first one sees, of two, is random
		s := leaderelect.NewMemoryStore()
		first, leave := context.WithCancel(t.Context())
		second, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		require.Error(t, s.Hold(first, "a", func() {
			s.DropMarks()
			held := make(chan struct{})
			go func() { end <- s.Hold(second, "a", func() { close(held) }) }() // the test waits for its end
			<-held
			leave()
		}))
		require.ErrorContains(t, s.Hold(first, "a", func() { t.Error("it is held twice") }), "it is held")
		stop()
		require.ErrorIs(t, <-end, context.Canceled)
	}
}
