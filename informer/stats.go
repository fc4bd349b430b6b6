package informer

import "time"

// Stats is what an [Informer] is doing, and has done, at one moment.
type Stats struct {
	Objects int     // in the cache
	Version Version // see Informer.Version

	// Heard is the time of the last list, event, or bookmark: see Informer.LastHeard. Watching reports whether a watch is open that can
	// read: it is false while the polls of a source of package poll fail.
	Heard    time.Time
	Watching bool

	// LastError is why the last list or watch failed. It is nil if the source has answered since, or if a watch has been open for a second
	// since.
	LastError error

	Pending  int // lists and events read from the source and not yet in the cache: at most 256
	Handlers int // that have joined

	// Backlog is the number of changes that wait for handlers, those of all handlers together. A handler with EveryEvent
	// may have several for one key. Objects that were in the cache when a handler joined do not count.
	Backlog int

	Lists  uint64 // that succeeded
	Errors uint64 // that were reported to Config.OnError
}

// Stats returns the numbers of in. The caller may keep the result. The cost is linear in the number of handlers.
func (in *Informer[K, T]) Stats() Stats {
	s := in.progress.stats()
	s.Objects, s.Pending, s.Errors = in.indexer.Len(), in.feed.len(), in.errors.Load()
	listeners := in.heardBy()
	s.Handlers = len(listeners)
	for _, l := range listeners {
		s.Backlog += l.Waiting()
	}
	return s
}

// stats returns what p knows.
func (p *progress) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Version: p.version, Heard: p.heard, Watching: !p.opened.IsZero() && !p.blind, Lists: p.lists, LastError: p.failure}
	if s.Watching && time.Since(p.opened) >= shortWatch {
		s.LastError = nil
	}
	return s
}

// listed records that the source has listed.
func (p *progress) listed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	p.answeredLocked()
}

// len returns the number of inputs that wait.
func (f *feed[K, T]) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inputs)
}
