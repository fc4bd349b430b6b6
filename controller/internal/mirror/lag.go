package mirror

import (
	"sync/atomic"
	"time"
)

// lag measures the time from a write to the moment at which the cache shows it. It follows one write at a time: the oldest that the cache
// does not show. So its cost does not depend on the number of writes.
type lag struct {
	followed atomic.Pointer[write]
	last     atomic.Int64 // nanoseconds that the previous write took; negative if there is none
}

// write is a write that the cache does not show yet.
type write struct {
	version uint64
	at      time.Time
}

func newLag() *lag {
	l := &lag{}
	l.last.Store(-1)
	return l
}

// wrote records that a version was written, which the cache may already show.
func (l *lag) wrote(version uint64) {
	if l.followed.Load() == nil {
		l.followed.CompareAndSwap(nil, &write{version, time.Now()})
	}
}

// saw records that the cache shows a version. 0 begins a new history, in which versions of the old one never appear.
func (l *lag) saw(version uint64) {
	w := l.followed.Load()
	if w == nil || version != 0 && version < w.version {
		return
	}
	if l.followed.CompareAndSwap(w, nil) && version != 0 {
		l.last.Store(int64(time.Since(w.at)))
	}
}

// forget ends the wait for a write, because the versions of the cache are no longer reported.
func (l *lag) forget() { l.followed.Store(nil) }

// now returns how long the last write took to appear, or how long the current one has been missing, if that is more. It is negative if
// there was no write.
func (l *lag) now() time.Duration {
	last := time.Duration(l.last.Load())
	if w := l.followed.Load(); w != nil {
		return max(last, time.Since(w.at))
	}
	return last
}
