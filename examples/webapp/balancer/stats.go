package balancer

// Stats is what a balancer has done so far.
type Stats struct {
	Open     int    // connections that are open now, with those that have no backend yet
	Accepted uint64 // connections accepted
	Refused  uint64 // connections closed because no backend could be had
}

// Stats returns what b has done so far.
func (b *Balancer) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}
