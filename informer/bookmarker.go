package informer

import "time"

// Bookmarker is what a source may be besides a [ListWatcher]: one that promises to say something now and then. Then an
// [Informer] can tell a connection that has died from a source in which nothing happens: see [Informer.Stale].
type Bookmarker interface {
	// BookmarkPeriod returns the longest time for which an open watch yields nothing: if nothing happens, it yields a
	// [Bookmark]. Zero promises nothing.
	BookmarkPeriod() time.Duration
}

// bookmarkPeriod returns what src promises.
func bookmarkPeriod(src any) time.Duration {
	if b, ok := src.(Bookmarker); ok {
		return max(b.BookmarkPeriod(), 0)
	}
	return 0
}
