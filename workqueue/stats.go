package workqueue

// Stats is a count of the keys of a [Queue] at one moment.
type Stats struct {
	Ready     int // to be handed out now
	InProcess int // handed out and not done
	Dirty     int // of those, added again meanwhile
	Delayed   int // with a wake-up scheduled; such a key may be ready or in process as well
}

// Stats returns the counts, all of one moment.
func (q *Queue[K]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Ready: q.ready.len(), InProcess: q.inProcess, Dirty: q.dirty, Delayed: q.delayed.len()}
}
