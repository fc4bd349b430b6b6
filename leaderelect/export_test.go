package leaderelect

import "time"

// StopTimer does to the leadership what a pause of the process does: no timer is served.
func (l *Leadership) StopTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry.Stop()
}

// FireTimer serves the timer, as it may be served when it has just been set anew.
func (l *Leadership) FireTimer() { l.expire() }

// Suspend does to the leadership what a suspend of the machine does: time passes that package time does not count.
func (l *Leadership) Suspend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent.Asleep -= d
}

// Revoke is what shard.Slots do to the elector of a slot that another is to own, and Admit undoes it.
func (e *Elector) Revoke(successor string) { e.revoke(successor) }
func (e *Elector) Admit()                  { e.admit() }
