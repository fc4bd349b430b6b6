package outcome

// Kind is what an error means for the attempt that returned it.
type Kind int

const (
	Failed    Kind = iota // it counts, and is retried after a backoff or the delay of the error
	Stopped               // a stop has ended its context: it says nothing about the key
	Fenced                // a later leader has written: likewise
	Permanent             // it counts, and is not retried
	NotYet                // it does not count, and continues later
	Conflict              // likewise, and soon
)

// Unfinished reports whether the attempt neither counts nor is left to somebody else.
func (k Kind) Unfinished() bool { return k == NotYet || k == Conflict }

// Of returns what err means. stopped says whether something other than a timeout of the attempt has ended its context. tooMany is that of
// [Unfinished.TooManyConflicts].
func Of(err error, stopped, tooMany bool) Kind {
	switch {
	case stopped:
		return Stopped
	case IsFenced(err):
		return Fenced
	case IsPermanent(err):
		return Permanent
	}
	switch m := read(err); {
	case m.notYet:
		return NotYet
	case m.conflict && !tooMany:
		return Conflict
	}
	return Failed
}
