package follow

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// quiet is for how long a watch tells nothing before a bookmark is due. The loop looks at least as often, so the bookmark
// comes before BookmarkInterval is over.
const quiet = backend.BookmarkInterval / 2

// Loop is a watch of a database whose events are of type E. All fields but Changed are required.
type Loop[E any] struct {
	// Poll is how often the loop looks without being woken. It looks more often if Poll is too long for bookmarks.
	Poll time.Duration

	// Signal wakes the loop.
	Signal *Signal

	// Read tells the changes after a version, in order, each with the version after which a watch goes on from it. It returns
	// the version up to which it has told all, and whether it has stopped before the last change that is there: then the
	// loop reads on at once. It returns soon when tell has returned false, and its results are ignored.
	Read func(ctx context.Context, after informer.Version, tell func(informer.Version, E) bool) (upTo informer.Version, more bool, err error)

	// Changed says at a poll whether there is anything to read after a version, if that is cheaper than Read.
	Changed func(ctx context.Context, after informer.Version) (bool, error)

	// Bookmark returns the event that says that everything up to a version was told.
	Bookmark func(informer.Version) E
}

// Run tells what happens after a version, until yield returns false. Then it returns nil. It returns an error of Read or
// Changed as it is, and the cause of ctx when that has ended.
func (l Loop[E]) Run(ctx context.Context, after informer.Version, yield func(E) bool) error {
	at, told, last := after, after, time.Now()
	left := false
	tell := func(v informer.Version, e E) bool {
		told, last = v, time.Now()
		left = !yield(e)
		return !left
	}
	tick := time.NewTicker(min(l.Poll, quiet))
	defer tick.Stop()
	for {
		woken := l.Signal.Next()
		next, more, err := l.Read(ctx, at, tell)
		if left {
			return nil
		}
		if err != nil {
			return err
		}
		at = next
		if (told < at || time.Since(last) >= quiet) && !tell(at, l.Bookmark(at)) {
			return nil
		}
		for wait := !more; wait; {
			select {
			case <-woken:
				wait = false
			case <-tick.C:
				if wait, err = l.nothing(ctx, at); err != nil {
					return err
				}
				wait = wait && time.Since(last) < quiet
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// nothing reports whether there is nothing to read.
func (l Loop[E]) nothing(ctx context.Context, at informer.Version) (bool, error) {
	if l.Changed == nil {
		return false, nil
	}
	changed, err := l.Changed(ctx, at)
	return !changed, err
}
