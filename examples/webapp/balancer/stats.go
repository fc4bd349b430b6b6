package balancer

// Stats is a snapshot of a balancer.
type Stats struct {
	Open     int    // connections that are open now, including those without a backend
	Accepted uint64 // connections accepted
	Refused  uint64 // connections closed because no backend was reachable
}

// Stats returns a snapshot of b.
func (b *Balancer) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}
