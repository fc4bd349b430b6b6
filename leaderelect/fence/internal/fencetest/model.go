package fencetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
	"github.com/setpoint-go/setpoint/store"
)

// unhurried is longer than any call of a leader takes that nothing has suspended or cut off, and shorter than a suspension.
const unhurried = 10 * time.Second

// longest is longer than any stream or read takes, but for that.
const longest = 60 * time.Second

// expected is what some schedule has to have, whatever the protocol.
var expected = [...]string{
	"done", "stale by server", "stale by store", "stale by other service", "not sent", "canceled", "canceled by caller", "lost", "restart",
	"suspended in flight", "suspended in body", "barred by read", "passed on", "no leadership", "missing", "malformed", "other lease",
	"read of stranger", "write of other lease", "read while successor works",
}

// Run plays 250 schedules, or 20,000 if the environment says LEADERELECT_MODEL=full. Some of them also have to have seen what further
// says.
func Run(t *testing.T, p Protocol, further ...string) {
	seen := make(map[string]int)
	for seed := range looptest.Effort("LEADERELECT_MODEL", 250, 20_000) {
		ok := t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, uint64(seed), p)
				m.play()
				m.judge()
				for what, n := range m.seen {
					seen[what] += n
				}
			})
		})
		if !ok {
			return
		}
	}
	t.Log(seen)
	for _, what := range append(expected[:], further...) {
		if seen[what] == 0 && !testing.Short() {
			t.Errorf("no schedule has %q", what)
		}
	}
}

// model is one schedule.
type model struct {
	t         *testing.T
	random    *rand.Rand
	dice      *looptest.Chance // for goroutines
	protocol  Protocol
	all       sync.WaitGroup // calls and suspensions
	wires     sync.WaitGroup // connections and servers
	texts     store.Store[[]uint64]
	anyLease  bool // the metadata decides whose guard it is
	processes []*process
	stranger  *process // never leads, and is never suspended
	strangers [3]Client
	services  []*service

	mu sync.Mutex
	// mu guards the following.
	term   uint64
	leader *process
	calls  []*Call
	byID   map[string]*Call
	seen   map[string]int
	faults []string
}

func newModel(t *testing.T, seed uint64, p Protocol) *model {
	m := &model{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), dice: looptest.NewChance(seed, 2), protocol: p,
		byID: make(map[string]*Call), seen: make(map[string]int),
	}
	m.anyLease = m.random.IntN(2) == 0
	var err error
	m.texts, err = store.Open(store.NewMemory(store.MemoryConfig{}), "Log", store.Config[[]uint64]{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"blue", "green"} {
		m.services = append(m.services, m.newService(name))
	}
	for _, name := range []string{"a", "b", "c"} {
		p := m.newProcess(name)
		p.client = m.protocol.Client(Way{Fenced, p.dial, m.random.IntN(2) == 0})
		m.processes = append(m.processes, p)
	}
	m.stranger = m.newProcess("s")
	for mode := range m.strangers {
		m.strangers[mode] = m.protocol.Client(Way{Mode(mode), m.stranger.dial, false})
	}
	return m
}

// roll returns a random number below n, for goroutines.
func (m *model) roll(n int) int { return m.dice.UpTo(n) }

func (m *model) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[what]++
}

// fault notes a violation. The caller holds m.mu.
func (m *model) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// dial opens a connection to the present life of a service.
func (m *model) dial(ctx context.Context, name string) (net.Conn, error) {
	m.mu.Lock()
	l := m.serviceLocked(name).l
	m.mu.Unlock()
	return l.Dial(ctx)
}

func (m *model) serviceLocked(name string) *service {
	return m.services[slices.IndexFunc(m.services, func(s *service) bool { return s.name == name })]
}

// play plays the schedule.
func (m *model) play() {
	m.elect()
	for range 60 {
		switch r := m.random.IntN(100); {
		case r < 50:
			m.call()
		case r < 54:
			m.strange()
		case r < 65:
			m.elect()
		case r < 75:
			m.suspend()
		case r < 78:
			m.services[m.random.IntN(2)].restart()
		case r < 82:
			time.Sleep(time.Duration(m.random.Int64N(int64(unhurried))))
		default:
			time.Sleep(time.Duration(m.random.IntN(400)) * time.Millisecond)
		}
	}
	time.Sleep(unhurried)
	for _, p := range m.processes {
		p.resume(0)
	}
	m.succeed()
	for _, p := range m.processes {
		p.resume(0)
	}
	time.Sleep(longest + unhurried)
	m.mu.Lock()
	for _, p := range m.processes {
		if p.depose != nil {
			p.losing()()
		}
	}
	m.mu.Unlock()
	m.all.Wait()
	for _, p := range m.processes {
		p.client.Close()
	}
	for _, c := range m.strangers {
		c.Close()
	}
	for _, s := range m.services {
		s.client.Close()
		s.server.Close()
	}
	m.wires.Wait() // for what is still in the network
}

// elect makes another process the leader. A former leader that is suspended does not notice. Another one may notice late, as one that cannot
// reach its lease.
func (m *model) elect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	awake := slices.DeleteFunc(slices.Clone(m.processes), func(p *process) bool { return p.suspended() })
	if len(awake) == 0 {
		return
	}
	if old := m.leader; old != nil {
		lose := old.losing()
		switch {
		case old.suspended():
			old.missed = append(old.missed, lose)
		case m.random.IntN(3) == 0:
			late := time.Duration(m.random.IntN(3000)) * time.Millisecond
			old.disturbLocked()
			m.all.Go(func() { // ends soon
				time.Sleep(late)
				m.mu.Lock()
				defer m.mu.Unlock()
				if old.suspended() {
					old.missed = append(old.missed, lose)
				} else {
					lose()
				}
			})
		default:
			lose()
		}
	}
	m.term++
	m.leader = awake[m.random.IntN(len(awake))]
	p := m.leader
	p.work, p.depose = leaderelect.Appoint(context.Background(), "shop", m.term)
	p.over = false
}

// disturbLocked notes that the process is no longer an undisturbed leader.
func (p *process) disturbLocked() (calls []*Call) {
	for _, c := range p.m.calls {
		if c.by == p && c.ended.IsZero() {
			c.disturbed = true
			calls = append(calls, c)
		}
	}
	return calls
}

// newCallLocked returns a random call.
func (m *model) newCallLocked(by *process) *Call {
	to := m.services[m.random.IntN(2)]
	c := &Call{
		ID: fmt.Sprintf("%s-%d", by.name, len(m.calls)), Kind: m.protocol.Kinds[m.random.IntN(len(m.protocol.Kinds))], Service: to.name, m: m,
		by: by, to: to, pieces: m.random.IntN(4), answer: m.random.IntN(4), wrapErrors: m.random.IntN(2) == 0, begun: time.Now(),
		longMessage: m.random.IntN(4) == 0, passOn: to.name == "blue" && m.random.IntN(4) > 0,
	}
	if c.answer == sends {
		c.longMessage = false // otherwise both could wait for the other one to read
	}
	if m.random.IntN(3) == 0 {
		c.lasts = time.Duration(m.random.Int64N(int64(longest)))
	}
	m.addLocked(c)
	return c
}

func (m *model) addLocked(c *Call) {
	m.calls = append(m.calls, c)
	m.byID[c.ID] = c
}

// call begins a call: of the leader, or of a process that has led before.
func (m *model) call() {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.leader
	if m.random.IntN(3) == 0 {
		p = m.processes[m.random.IntN(len(m.processes))]
		for _, late := range m.processes { // one that was replaced and does not know it
			if late != m.leader && late.work != nil && !late.over && !late.suspended() {
				p = late
			}
		}
	}
	if p.work == nil || p.suspended() {
		return
	}
	l, _ := leaderelect.FromContext(p.work)
	c := m.newCallLocked(p)
	c.lease, c.term = "shop", l.Term()
	c.afterTerm, c.disturbed = p.over, p.over || p != m.leader
	ctx := p.work
	if m.random.IntN(2) == 0 {
		ctx = l.NewContext(context.Background()) // does not end with the leadership
	}
	switch m.random.IntN(12) {
	case 0: // it calls without its claim
		ctx, c.lease, c.term, c.afterTerm = store.Unfenced(l.NewContext(context.Background())), "", 0, false
		if !c.Kind.Safe() {
			c.expect = claim.Missing
		}
	case 1: // it is behind a service, and was called with another claim
		c.Claim = []string{claim.LeaseHeader, "stock", claim.TermHeader, "99"}
	}
	m.startLocked(ctx, p.client, c)
}

// succeed suspends a leader in the middle of a read and a stream of each service, and lets its successor write.
func (m *model) succeed() {
	m.lead(func(kind Kind) bool { return kind == Read || kind == Stream }, longest)
	time.Sleep(unhurried / 2)
	m.mu.Lock()
	if p := m.leader; !p.suspended() {
		p.suspendLocked()
	}
	m.mu.Unlock()
	m.elect()
	m.lead(func(kind Kind) bool { return kind == Write }, 0)
	time.Sleep(2 * unhurried)
}

// lead begins calls of the leader to each service.
func (m *model) lead(which func(Kind) bool, lasts time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.leader
	if p.suspended() {
		return
	}
	l, _ := leaderelect.FromContext(p.work)
	for _, s := range m.services {
		for kind := range Stream + 1 {
			if !which(kind) || !slices.Contains(m.protocol.Kinds, kind) {
				continue
			}
			c := m.newCallLocked(p)
			c.Kind, c.to, c.Service, c.passOn, c.lasts = kind, s, s.name, false, lasts
			c.lease, c.term = "shop", l.Term()
			m.all.Go(func() { c.end(p.client.Call(p.work, c)) }) // ends with its call
		}
	}
}

// strange begins a call of a stranger.
func (m *model) strange() {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.newCallLocked(m.stranger)
	mode := Plain
	refused := func(reason claim.Reason) {
		if !c.Kind.Safe() {
			c.expect = reason
		}
	}
	switch m.random.IntN(8) {
	case 0:
		refused(claim.Missing)
	case 1:
		mode = Unfenced
		refused(claim.Missing)
	case 2:
		mode = Fenced
		c.unsent = !c.Kind.Safe()
	case 3:
		c.Claim, c.expect = []string{claim.TermHeader, "18446744073709551615"}, claim.Malformed
	case 4:
		c.Claim = []string{claim.LeaseHeader, "shop", claim.TermHeader, "18446744073709551615", claim.TermHeader, "1"}
		c.expect = claim.Malformed
	case 5:
		c.Claim, c.expect = []string{claim.LeaseHeader, "shop", claim.TermHeader, "-1"}, claim.Malformed
	default:
		c.Claim = []string{claim.LeaseHeader, "stock", claim.TermHeader, strconv.FormatUint(math.MaxUint64, 10)}
		if m.anyLease {
			c.lease, c.term = "stock", math.MaxUint64
			break
		}
		if m.random.IntN(2) == 0 { // the handler asks for the lease of a caller that it does not know
			c.Claim = append([]string{User, "mallory"}, c.Claim...)
			c.Claim[3] = "shop"
		}
		refused(claim.OtherLease)
	}
	m.startLocked(context.Background(), m.strangers[mode], c)
}

// startLocked makes a call in a goroutine of its own.
func (m *model) startLocked(ctx context.Context, client Client, c *Call) {
	stop := func() {}
	if m.random.IntN(8) == 0 {
		c.cancels, c.disturbed = true, true
		after := time.Duration(m.random.IntN(1000)) * time.Millisecond
		if m.random.IntN(2) == 0 {
			ctx, stop = context.WithTimeout(ctx, after)
		} else {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			timer := time.AfterFunc(after, cancel)
			stop = func() { timer.Stop(); cancel() }
		}
	}
	m.all.Go(func() { // ends with its call
		defer stop()
		out := client.Call(ctx, c)
		c.by.gate()
		c.end(out)
	})
}

// end notes how a call has ended.
func (c *Call) end(out Outcome) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.out, c.ended = out, time.Now()
}

// judge checks what has happened.
func (m *model) judge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	written, err := m.texts.Get(m.t.Context(), "log")
	if err == nil && !slices.IsSorted(written.Value) {
		m.fault("the store has the terms %v: guarantee 9", written.Value)
	}
	for _, c := range m.calls {
		c.judgeLocked()
	}
	if len(m.faults) > 0 {
		m.t.Error(strings.Join(m.faults, "\n"))
	}
}
