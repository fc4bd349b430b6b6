package follow

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
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

// Loop is a watch of a database whose events are of type E. Rest, Pace, Deaf, and Changed are optional.
type Loop[E any] struct {
	// Poll is how long after a read the loop reads again without being woken. It reads earlier if Poll is too long for bookmarks.
	Poll time.Duration

	// Signal wakes the loop.
	Signal *broadcast.Signal

	// Read returns the next changes after a version. The loop calls it while it reports the page before, but never twice at the same
	// time: see [Ahead].
	Read func(ctx context.Context, after informer.Version) (Page[E], error)

	// Rest is called before the loop waits.
	Rest func(ctx context.Context) error

	// Pace is how long the loop waits between two reads of a stream of changes, so that one read finds many: see guarantee 6. Zero means that
	// it reads whenever it is woken.
	Pace time.Duration

	// Deaf is called with true when a stream has begun, in which the loop needs no Signal, and with false when that has ended, also because
	// Run returns. Soon after a call with false, the Signal must wake the loop. Required with a Pace.
	Deaf func(bool)

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
	at, reported, last := after, after, time.Now()
	left := false
	report := func(v informer.Version, e E) bool {
		reported, last = v, time.Now()
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
	found := false // an event since the last wait
	use := func(p Page[E]) bool {
		found = found || len(p.Events) > 0
		for _, e := range p.Events {
			if !report(l.VersionOf(e), e) {
				return false
			}
		}
		at, then = p.UpTo, p.Then
		if bookmark := max(reported, at); reported < at || time.Since(last) >= quiet {
			return report(bookmark, l.Bookmark(bookmark))
		}
		return true
	}
	tick := time.NewTicker(min(l.Poll, quiet))
	defer tick.Stop()
	stream := stream{pace: l.Pace, signal: l.Signal, deaf: l.Deaf}
	defer stream.end()
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
		tick.Reset(min(l.Poll, quiet))
		readAt := time.Now()
		if stream.read(found) {
			found, wasWoken = false, true
			if err := wait.Sleep(ctx, l.Pace); err != nil {
				return context.Cause(ctx)
			}
			continue
		}
		found = false
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
		for waiting := true; waiting; {
			select {
			case <-woken:
				waiting, wasWoken = false, true
			case <-again:
				waiting = false
			case <-tick.C:
				nothing, err := l.nothing(ctx, at)
				if err != nil {
					return err
				}
				waiting = nothing && time.Since(last) < quiet
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if wasWoken {
			if err := stream.woken(ctx, time.Since(readAt)); err != nil {
				return err
			}
		}
	}
}

// stream tells whether changes come so fast that the loop reads them every pace: see [Loop.Pace].
type stream struct {
	pace   time.Duration
	signal *broadcast.Signal
	deaf   func(bool)
	on     bool // the loop reads every pace, and needs no wake-ups
	count  int  // of wake-ups in a row that came early
}

// A stream begins with the second wake-up within a pace, or after streamBegins paces in a row with one each. It ends with a read that finds
// nothing. Then the loop is woken, and reads once more. All that costs a server about as much as three reads.
const streamBegins = 4

// woken is called when the loop was woken, so long after its last read. It returns when the loop may read, or with the cause of ctx.
func (s *stream) woken(ctx context.Context, since time.Duration) error {
	if since >= s.pace {
		s.count = 0
		return nil
	}
	ready := time.After(s.pace - since)
	s.count++
	for {
		another := s.signal.Next()
		if s.count == streamBegins {
			s.on, s.count, another = true, 0, nil
			s.deaf(true)
		}
		select {
		case <-ready:
			return nil
		case <-another:
			s.count = streamBegins
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read is called after a read that has found changes, or none. It reports whether the loop reads again after a pace.
func (s *stream) read(found bool) bool {
	if !found {
		s.end()
	}
	return s.on
}

// end ends the stream, if there is one.
func (s *stream) end() {
	if s.on {
		s.on = false
		s.deaf(false)
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
