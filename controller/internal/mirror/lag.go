package mirror

import (
	"sync"
	"sync/atomic"
	"time"
)

// lag measures the time from a write to the moment at which the cache shows it. It follows one write at a time, the oldest that
// the cache does not show, so its cost does not depend on how many there are.
type lag struct {
	awaits atomic.Uint64 // the version of the write that it follows; 0 if there is none; written with mu held

	mu sync.Mutex
	// mu guards the following.
	since time.Time     // of the write
	last  time.Duration // of the write before; negative if there is none
}

func newLag() *lag { return &lag{last: -1} }

// wrote notes that a version was written, which the cache may show already.
func (l *lag) wrote(version uint64) {
	if l.awaits.Load() != 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaits.Load() == 0 {
		l.since = time.Now()
		l.awaits.Store(version)
	}
}

// saw notes that the cache shows a version. 0 is the beginning of a new history, in which no version of the old one comes.
func (l *lag) saw(version uint64) {
	awaited := l.awaits.Load()
	if awaited == 0 || version != 0 && version < awaited {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaits.Load() != awaited {
		return
	}
	if l.awaits.Store(0); version != 0 {
		l.last = time.Since(l.since)
	}
}

// forget ends the wait for a write: nobody tells any more what the cache shows.
func (l *lag) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits.Store(0)
}

// now returns how long the last write took, or how long the one has taken that the cache does not show yet, if that is more. It is
// negative if there was no write.
func (l *lag) now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awaits.Load() == 0 {
		return l.last
	}
	return max(l.last, time.Since(l.since))
}
