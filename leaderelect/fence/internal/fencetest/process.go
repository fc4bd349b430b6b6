package fencetest

import (
	"context"
	"net"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// process is a client of the services.
type process struct {
	m      *model
	name   string
	client Client

	// m.mu guards the following.

	work    context.Context // of its last leadership
	depose  func(error)
	over    bool          // it was deposed, and could have noticed
	missed  []func()      // what it notices when it is resumed
	running chan struct{} // closed while it runs
}

func (m *model) newProcess(name string) *process {
	p := &process{m: m, name: name, running: make(chan struct{})}
	close(p.running)
	return p
}

// dial opens a connection to a service, over a network that delays.
func (p *process) dial(ctx context.Context, service string) (net.Conn, error) {
	time.Sleep(time.Duration(p.m.roll(50)) * time.Millisecond)
	p.gate() // between the check of the leadership and the first byte
	conn, err := p.m.dial(ctx, service)
	if err != nil {
		return nil, err
	}
	return p.late(conn), nil
}

// losing returns what ends the present leadership of p. The caller holds m.mu then, too.
func (p *process) losing() func() {
	work, depose := p.work, p.depose
	l, _ := leaderelect.FromContext(work)
	return func() {
		depose(leaderelect.ErrLeaseTaken)
		if p.work == work {
			p.over = true
		}
		for _, c := range p.m.calls {
			if c.by == p && c.term == l.Term() && c.ended.IsZero() {
				c.deposed, c.disturbed = time.Now(), true
			}
		}
	}
}

func (p *process) suspended() bool {
	select {
	case <-p.running:
		return false
	default:
		return true
	}
}

// suspend suspends a process for longer than any lease, and its timers.
func (m *model) suspend() {
	m.mu.Lock()
	p := m.processes[m.random.IntN(len(m.processes))]
	if m.random.IntN(2) == 0 {
		p = m.leader
	}
	if p.suspended() {
		m.mu.Unlock()
		return
	}
	p.suspendLocked()
	m.mu.Unlock()
	first := time.Duration(m.random.IntN(2500)-500) * time.Millisecond
	pause := unhurried + time.Duration(m.random.Int64N(int64(2*unhurried)))
	if m.random.IntN(2) == 0 {
		pause = time.Duration(m.random.IntN(2000)) * time.Millisecond
	}
	restarts := m.services[m.random.IntN(2)]
	if m.random.IntN(3) > 0 {
		restarts = nil
	}
	m.all.Go(func() { // ends after the pause
		time.Sleep(pause)
		if restarts != nil {
			restarts.restart()
		}
		p.resume(first)
	})
}

func (p *process) suspendLocked() {
	p.running = make(chan struct{})
	for _, c := range p.disturbLocked() {
		c.suspendedOnce = true
		p.m.seen["suspended in flight"]++
	}
}

// resume resumes a process. What it has missed happens before anything else, or some time after it.
func (p *process) resume(late time.Duration) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if !p.suspended() {
		return
	}
	missed := p.missed
	p.missed = nil
	notice := func() {
		for _, f := range missed {
			f()
		}
	}
	if late < 0 {
		notice()
	}
	close(p.running)
	if late >= 0 {
		p.m.mu.Unlock()
		time.Sleep(late)
		p.m.mu.Lock()
		notice()
	}
}

// gate returns while the process runs. A service, which has no process, always runs.
func (p *process) gate() (stopped bool) {
	for p != nil {
		p.m.mu.Lock()
		running := p.running
		p.m.mu.Unlock()
		select {
		case <-running:
			return stopped
		default:
			stopped = true
			<-running
		}
	}
	return false
}
