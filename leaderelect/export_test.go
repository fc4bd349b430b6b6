package leaderelect

// StopTimer does to the leadership what a pause of the process does: no timer is served.
func (l *Leadership) StopTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry.Stop()
}

// FireTimer serves the timer, as it may be served when it has just been set anew.
func (l *Leadership) FireTimer() { l.expire() }
