package follow

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// quiet is the maximum time that a watch reports nothing before a bookmark is due. The loop reads at least as often, so the bookmark comes
// within BookmarkInterval. It may come at the second tick, because it is not quite due at the first one. So there is time for the read.
const quiet = backend.BookmarkInterval/2 - 100*time.Millisecond

// settle is how long the loop waits before it reads again after a read that returned [Settle].
const settle = 5 * time.Millisecond

// Then is the next action of a loop after a read.
type Then int

const (
	Wait   Then = iota // until it is woken, or a poll is due
	Settle             // like Wait, but changes are about to commit, perhaps without a wake-up: see guarantee 4
	Again              // read on at once: there may be more changes
)

// Page is the result of one read of a [Loop].
type Page[E any] struct {
	// Events are the changes, in order.
	Events []E

	// UpTo is the version from which the loop reads on. If Then is not Again, Events are all changes up to it.
	UpTo informer.Version

	// Then is the next action of the loop.
	Then Then
}

// Loop is a watch of a database whose events are of type E. All fields but Rest and Changed are required.
type Loop[E any] struct {
	// Poll is how often the loop reads without being woken. It reads more often if Poll is too long for bookmarks.
	Poll time.Duration

	// Signal wakes the loop.
	Signal *Signal

	// Read returns the next changes after a version. The loop calls it while it reports the page before, but never twice at the same
	// time: see [Ahead].
	Read func(ctx context.Context, after informer.Version) (Page[E], error)

	// Rest is called before the loop waits.
	Rest func(ctx context.Context) error

	// Changed reports, at a poll, whether there is anything to read after a version, if that is cheaper than Read.
	Changed func(ctx context.Context, after informer.Version) (bool, error)

	// VersionOf returns the version after which a watch resumes from an event.
	VersionOf func(E) informer.Version

	// Bookmark returns the event that says that everything up to a version was reported.
	Bookmark func(informer.Version) E
}

// Run reports the changes after a version until yield returns false. Then it returns nil. It returns an error of Read, Rest, or Changed
// unchanged, and the cause of ctx when ctx has ended.
func (l Loop[E]) Run(ctx context.Context, after informer.Version, yield func(E) bool) error {
	at, told, last := after, after, time.Now()
	left := false
	tell := func(v informer.Version, e E) bool {
		told, last = v, time.Now()
		left = !yield(e)
		return !left
	}
	var woken <-chan struct{} // since the last read has begun
	read := func(ctx context.Context) (Page[E], bool, error) {
		woken = l.Signal.Next()
		p, err := l.Read(ctx, after)
		after = p.UpTo
		return p, p.Then == Again, err
	}
	var then Then
	use := func(p Page[E]) bool {
		for _, e := range p.Events {
			if !tell(l.VersionOf(e), e) {
				return false
			}
		}
		at, then = p.UpTo, p.Then
		if bookmark := max(told, at); told < at || time.Since(last) >= quiet {
			return tell(bookmark, l.Bookmark(bookmark))
		}
		return true
	}
	tick := time.NewTicker(min(l.Poll, quiet))
	defer tick.Stop()
	wasWoken := true        // before the read
	var pause time.Duration // before the loop reads again by itself; 0 leaves that to the ticks
	for {
		if err := Ahead(ctx, read, use); err != nil || left {
			return err
		}
		if l.Rest != nil {
			if err := l.Rest(ctx); err != nil {
				return err
			}
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
				nothing, err := l.nothing(ctx, at)
				if err != nil {
					return err
				}
				wait = nothing && time.Since(last) < quiet
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
