package controller

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Gate decides whether a reconcile may begin now. The controller puts a key back that the gate refuses, and asks again
// later: no worker waits. Controllers that depend on the same thing share a gate. [Breaker] is one; to limit a rate there is
// Config.HandOut. Several goroutines may call its methods concurrently.
type Gate interface {
	// Enter returns a wait of 0 if a reconcile may begin, and a ticket for it. Otherwise it returns the time after which to
	// ask again. The ticket is any number that tells the gate later which Enter it was; 0 will do if the gate does not care.
	Enter() (ticket uint64, wait time.Duration)

	// Leave reports how a reconcile ended, with its error. The controller calls it once for each Enter that returned no
	// wait, with the ticket of that Enter. The outcome is Canceled if the reconcile did not begin after all.
	Leave(ticket uint64, o Outcome, err error)
}

// Breaker is a circuit breaker: a [Gate] for something that several controllers depend on. When that seems to have failed,
// the breaker opens, so that the controllers do not make it worse.
//
//	          Failures in a row             OpenFor has passed
//	closed ----------------------> open ------------------------> half-open
//	  ^                             ^                              |    |
//	  |                             '------------------------------'    |
//	  |                                   the trial fails               |
//	  '-----------------------------------------------------------------'
//	                          the trial succeeds
//
// While it is closed, it lets every reconcile through. While it is open, it refuses all of them. While it is half-open, it
// tries: it lets one reconcile through at a time, until one succeeds or fails.
//
// Succeeded and Requeued are successes. Failed, Deferred, TimedOut, Panicked and Parked are failures, if
// BreakerConfig.Counts says so of the error. The other outcomes are neither. A reconcile counts only while the breaker is in
// the state in which it let that reconcile through. So one that began before the breaker opened decides nothing when it ends
// during the trial.
//
// All methods are safe for concurrent use.
type Breaker struct {
	cfg BreakerConfig

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. trying implies that openUntil is set and has passed.
	//  2. failures is 0 while openUntil is set.
	period    uint64    // the ticket of those that it lets through; grows whenever it opens or closes
	failures  int       // in a row
	openUntil time.Time // open until then, half-open after that; zero while closed
	trying    bool      // the trial is under way
}

// BreakerConfig is the configuration of a [Breaker]. The zero value is ready for use.
type BreakerConfig struct {
	// Name appears in the log. Defaults to "breaker".
	Name string

	// Failures is the number of failures in a row that open the breaker. Defaults to 5.
	Failures int

	// OpenFor is how long the breaker stays open. Defaults to 10 s.
	OpenFor time.Duration

	// Counts reports whether an error is a failure of what the breaker guards. Defaults to all errors.
	Counts func(error) bool

	// Logger receives each change, since nobody else does. Defaults to slog.Default().
	Logger *slog.Logger
}

// NewBreaker returns a closed breaker. It returns an error if a field of cfg is out of its bounds.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	err := errors.Join(
		notNegative("BreakerConfig.Failures", cfg.Failures),
		notNegative("BreakerConfig.OpenFor", cfg.OpenFor),
	)
	if err != nil {
		return nil, fmt.Errorf("controller: new breaker: %w", err)
	}
	cfg.Name = cmp.Or(cfg.Name, "breaker")
	cfg.Failures = cmp.Or(cfg.Failures, 5)
	cfg.OpenFor = cmp.Or(cfg.OpenFor, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Counts == nil {
		cfg.Counts = func(error) bool { return true }
	}
	return &Breaker{cfg: cfg}, nil
}

// Enter implements [Gate].
func (b *Breaker) Enter() (ticket uint64, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch wait = time.Until(b.openUntil); {
	case b.openUntil.IsZero():
		return b.period, 0
	case wait > 0:
		return 0, wait
	case b.trying:
		return 0, min(time.Second, b.cfg.OpenFor)
	}
	b.trying = true
	return b.period, 0
}

// Leave implements [Gate].
func (b *Breaker) Leave(ticket uint64, o Outcome, err error) {
	failed := (o.failure() || o == Parked) && b.cfg.Counts(err)
	changed, until := b.leave(ticket, err == nil, failed)
	switch {
	case !changed:
	case until.IsZero():
		b.cfg.Logger.Info("circuit breaker closed", slog.String("breaker", b.cfg.Name))
	default:
		b.cfg.Logger.Warn("circuit breaker opened", slog.String("breaker", b.cfg.Name), slog.Time("until", until), slog.Any("error", err))
	}
}

// Trip opens the breaker for d: because the API has said when to come back, say. If the breaker stays open for longer
// already, Trip changes nothing, and neither does a d that is not positive.
func (b *Breaker) Trip(d time.Duration) {
	if d <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := time.Now().Add(d); until.After(b.openUntil) {
		b.openLocked(until)
	}
}

// OpenUntil returns the time until which the breaker is open. It lies in the past while the breaker is half-open. It returns
// false while the breaker is closed.
func (b *Breaker) OpenUntil() (until time.Time, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openUntil, !b.openUntil.IsZero()
}

// leave counts a success, a failure, or neither, of a reconcile with that ticket. It returns whether the breaker has opened
// or closed because of it, and until when it is open.
func (b *Breaker) leave(ticket uint64, succeeded, failed bool) (changed bool, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ticket != b.period {
		return false, b.openUntil
	}
	switch {
	case b.trying && succeeded:
		b.openLocked(time.Time{})
		return true, b.openUntil
	case b.trying && !failed:
		b.trying = false // another one has to tell
	case succeeded:
		b.failures = 0
	case failed:
		b.failures++
		if b.trying || b.failures >= b.cfg.Failures {
			b.openLocked(time.Now().Add(b.cfg.OpenFor))
			return true, b.openUntil
		}
	}
	return false, b.openUntil
}

// openLocked opens the breaker until then, or closes it if that is the zero time. What it has let through counts no more.
func (b *Breaker) openLocked(until time.Time) {
	b.period++
	b.failures, b.openUntil, b.trying = 0, until, false
}
