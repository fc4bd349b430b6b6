package informer

import "time"

// Stats is what an [Informer] is doing, and has done, at one moment.
type Stats struct {
	Objects int     // in the cache
	Unread  int     // objects whose current state is not in the cache: see Informer.AllUnread
	Missing int     // records of the last list that could not be read: see Informer.Missing
	Version Version // see Informer.Version

	// LastReceived is the time of the last list, event, or bookmark: see Informer.LastReceived. Watching reports whether a watch is open that
	// can read: it is false while the polls of a source of package poll fail.
	LastReceived time.Time
	Watching     bool

	// DelayedSince is when the open watch first saw something that keeps it from reporting what is committed: see [Delayer]. It is zero if there is
	// nothing, or if the source is no Delayer.
	DelayedSince time.Time

	// LastError is why the last list or watch failed. It is nil if the source has answered since, or if a watch has been open for a second
	// since.
	LastError error

	// Applying is for how long Run has been busy with the changes that it took last. It is 0 while Run waits for changes. A long time means that
	// the cache waits for a function that has not returned, or that takes long for each change: of an index, of OnVersion or OnReadable, of a
	// handler with Inline, or Equal of the source. Calling is the name of the handler, if it is one: see Registration.Name.
	Applying time.Duration
	Calling  string

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
	s.Unread, s.Missing = in.unread.counts()
	if d := partOf[Delayer](in.reflector.src); d != nil {
		s.DelayedSince = d.DelayedSince()
	}
	s.Objects, s.Pending, s.Errors = in.indexer.Len(), in.buffer.len(), in.errors.Load()
	listeners := in.joined()
	s.Handlers = len(listeners)
	if name := in.calling.Load(); name != nil {
		s.Calling = *name
	}
	for _, l := range listeners {
		s.Backlog += l.pending()
	}
	return s
}

// stats returns the part of Stats that p has.
func (p *progress) stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{
		Version: p.version, LastReceived: p.received, Watching: !p.opened.IsZero() && !p.blind, Lists: p.lists, LastError: p.failure,
	}
	if !p.since.IsZero() {
		s.Applying = time.Since(p.since)
	}
	if s.Watching && time.Since(p.opened) >= shortWatch {
		s.LastError = nil
	}
	return s
}
