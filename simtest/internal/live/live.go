package live

import (
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
)

// leaseTime is longer than a run lasts: the kit decides when a lease is lost.
const leaseTime = 24 * time.Hour

// stopTime is how long a process may take to stop gracefully: the StopTimeout of its manager, and the time that the manager waits after it.
const stopTime = time.Minute + 11*time.Second

// Driver is a [sim.Driver]. It decides what happens when: every reconcile and every call of the Env waits for its turn, every watch hears
// what the driver lets it hear, and controllers are paused. The driver resumes one of them until its workers have taken what was ready.
type Driver struct {
	run        *sim.Run
	leases     *memlease.Store
	launched   []*life
	leftBehind bool // a part has not ended in time
}

// New returns the driver of a run.
func New(r *sim.Run) *Driver {
	r.Concurrent = true
	return &Driver{run: r, leases: memlease.New()}
}

// Live implements [sim.Driver].
func (d *Driver) Live(p *sim.Process) sim.Life {
	return &life{
		p: p, driver: d, ended: make(chan struct{}), told: make(chan struct{}),
		informers: make(map[*view.View]controller.Informer),
	}
}

// Work implements [sim.Driver]: it starts the first controller that has a ready key.
func (d *Driver) Work() bool {
	for p := range d.run.Processes() {
		if p.Busy() || p.Dead() || p.Zombie() || p.Standby() || p.Stopping() {
			continue
		}
		for _, l := range p.Loops {
			if p.IsCold(l) || !l.Waits() {
				continue
			}
			before := l.Begun()
			l.Resume()
			synctest.Wait()
			l.Pause()
			synctest.Wait()
			did := l.Begun() - before
			if over, again := d.run.Count(p, did); over {
				return again
			}
			if did > 0 {
				return true
			}
		}
	}
	return false
}

// End implements [sim.Driver].
func (d *Driver) End() {
	for _, l := range d.launched {
		l.p.Kill()
		<-l.ended
	}
	if d.leftBehind {
		time.Sleep(time.Hour) // a part may still end, and nothing may outlast the bubble
	}
}
