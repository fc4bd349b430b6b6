package leaderelect

import "time"

// StopTimer simulates a pause of the process: the timer of the leadership does not fire.
func (l *Leadership) StopTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry.Stop()
}

// FireTimer fires the timer, as it may fire just after it was reset.
func (l *Leadership) FireTimer() { l.expire() }

// Suspend simulates a suspend of the machine: time passes that package time does not count.
func (l *Leadership) Suspend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent.Asleep -= d
}

// Revoke is called by shard.Slots if another replica has to own the slot of the elector. Admit undoes it.
func (e *Elector) Revoke(successor string) { e.revoke(successor) }
func (e *Elector) Admit()                  { e.admit() }
