package retry

import (
	"errors"
	"time"
)

// ErrGaveUp says that the steps of the backoff were used up. The error that wraps it wraps the last attempt's error too.
var ErrGaveUp = errors.New("retry: gave up")

// Permanent marks err as final: [Do] and its kin return it and do not try again, whatever Config.Retriable says. The mark
// stays on, so that a retry around the retry ends too; the text is err's, and errors.Is and errors.As see err.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// After returns err with the wish to be retried in d, in place of the backoff's delay and without jitter. 0 is at once; a
// negative d is no wish. The attempt still counts as one of the backoff's steps. Whether to retry at all is not the
// error's to say: Config.Retriable and Steps decide. After(nil, d) is nil.
//
// Any error with a method RetryAfter() time.Duration has the same effect.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

// IsPermanent reports whether err, or one that it wraps, was made by [Permanent].
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// IsConflict reports whether err is a conflict: whether the first error in its tree that has a method Conflict() bool
// returns true from it.
func IsConflict(err error) bool {
	var c interface{ Conflict() bool }
	return errors.As(err, &c) && c.Conflict()
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type afterError struct {
	err error
	d   time.Duration
}

func (e *afterError) Error() string             { return e.err.Error() }
func (e *afterError) Unwrap() error             { return e.err }
func (e *afterError) RetryAfter() time.Duration { return e.d }

// delay returns the delay that err asks for, or else the backoff's.
func delay(err error, backoff time.Duration) time.Duration {
	var a interface{ RetryAfter() time.Duration }
	if errors.As(err, &a) {
		if d := a.RetryAfter(); d >= 0 {
			return d
		}
	}
	return backoff
}
