package follow

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// quiet is the maximum time that a watch reports nothing before a bookmark is due. The loop reads at least as often, so the bookmark comes
// within BookmarkInterval.
const quiet = backend.BookmarkInterval / 2

// settle is how long the loop waits before it reads again after a read that returned [Settle].
const settle = 5 * time.Millisecond

// Then is the next action of a loop after a read.
type Then int

const (
	Wait   Then = iota // until it is woken, or a poll is due
	Settle             // like Wait, but changes are about to commit, perhaps without a wake-up: see guarantee 4
	Again              // the read has stopped before the last change: read on at once
)

// Loop is a watch of a database whose events are of type E. All fields but Changed are required.
type Loop[E any] struct {
	// Poll is how often the loop reads without being woken. It reads more often if Poll is too long for bookmarks.
	Poll time.Duration

	// Signal wakes the loop.
	Signal *Signal

	// Read reports the changes after a version, in order, each with the version after which a watch resumes from it. It returns the version
	// up to which it has reported all changes, and the next action of the loop. If tell returns false, Read returns soon, and its results
	// are ignored.
	Read func(ctx context.Context, after informer.Version, tell func(informer.Version, E) bool) (upTo informer.Version, then Then, err error)

	// Changed reports, at a poll, whether there is anything to read after a version, if that is cheaper than Read.
	Changed func(ctx context.Context, after informer.Version) (bool, error)

	// Bookmark returns the event that says that everything up to a version was reported.
	Bookmark func(informer.Version) E
}

// Run reports the changes after a version until yield returns false. Then it returns nil. It returns an error of Read or Changed unchanged,
// and the cause of ctx when ctx has ended.
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
	wasWoken := true        // before the read
	var pause time.Duration // before the loop reads again by itself; 0 leaves that to the ticks
	for {
		woken := l.Signal.Next()
		next, then, err := l.Read(ctx, at, tell)
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
		if then == Again {
			continue
		}
		switch {
		case then == Wait:
			pause = 0
		case wasWoken:
			pause = settle
		default:
			pause = min(2*pause, quiet)
		}
		var again <-chan time.Time // nil if the ticks come sooner
		if pause > 0 && pause < min(l.Poll, quiet) {
			again = time.After(pause)
		}
		wasWoken = false
		for wait := true; wait; {
			select {
			case <-woken:
				wait, wasWoken = false, true
			case <-again:
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
