package leaderelect

// StopTimer does to the leadership what a pause of the process does: no timer is served.
func (l *Leadership) StopTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry.Stop()
}
