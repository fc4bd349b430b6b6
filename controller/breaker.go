package controller

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Gate decides whether a reconcile may begin now. A key that it does not let through is put back, and asked for again
// later: no worker waits. Controllers that depend on the same thing share one. [Breaker] is a Gate; to limit a rate there is
// Config.HandOut. Its methods may be called by several goroutines at once.
type Gate interface {
	// Enter returns 0 if a reconcile may begin. Otherwise it returns the time after which to ask again.
	Enter() (wait time.Duration)

	// Leave is told, for each Enter that returned 0, how the reconcile ended, with its error.
	Leave(o Outcome, err error)
}

// Breaker is a circuit breaker: a [Gate] that closes when what several controllers depend on seems to have failed, so that
// they do not make it worse.
//
//	           Failures in a row                 OpenFor has passed
//	passes  ---------------------->  refuses  ------------------------>  tries with one reconcile at a time
//	  ^                                 ^                                   |                      |
//	  |                                 '-----------------------------------'  it fails            |
//	  '--------------------------------------------------------------------------------------------'  it succeeds
//
// What counts are the outcomes of reconciles: Succeeded and Requeued are successes; Failed, Deferred, TimedOut, Panicked and
// Parked are failures, if BreakerConfig.Counts says so of the error; the others say nothing.
//
// All methods are safe for concurrent use.
type Breaker struct {
	cfg BreakerConfig

	mu sync.Mutex
	// mu guards the following. Invariant: trying implies that openUntil is set.
	failures  int       // in a row
	openUntil time.Time // it refuses until then; zero when it passes
	trying    bool      // a reconcile is under way that decides
}

// BreakerConfig is the configuration of a [Breaker]. The zero value is ready for use.
type BreakerConfig struct {
	// Name stands in the log. Defaults to "breaker".
	Name string

	// Failures is the number of failures in a row after which nothing passes. Defaults to 5.
	Failures int

	// OpenFor is the time for which nothing passes then. Defaults to 10 s.
	OpenFor time.Duration

	// Counts tells whether an error is a failure of what the breaker guards. Defaults to all errors.
	Counts func(error) bool

	// Logger receives each change, since nobody else does. Defaults to slog.Default().
	Logger *slog.Logger
}

// NewBreaker returns a breaker that passes. It returns an error if a field of cfg is out of its bounds.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	if err := cmp.Or(notNegative("Failures", cfg.Failures), notNegative("OpenFor", cfg.OpenFor)); err != nil {
		return nil, fmt.Errorf("controller: new breaker: BreakerConfig.%w", err)
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
func (b *Breaker) Enter() (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch wait = time.Until(b.openUntil); {
	case b.openUntil.IsZero():
		return 0
	case wait > 0:
		return wait
	case b.trying:
		return min(time.Second, b.cfg.OpenFor)
	}
	b.trying = true
	return 0
}

// Leave implements [Gate].
func (b *Breaker) Leave(o Outcome, err error) {
	failed := (o.failure() || o == Parked) && b.cfg.Counts(err)
	changed, until := b.leave(err == nil, failed)
	switch {
	case !changed:
	case until.IsZero():
		b.cfg.Logger.Info("circuit breaker passes again", slog.String("breaker", b.cfg.Name))
	default:
		b.cfg.Logger.Warn("circuit breaker refuses", slog.String("breaker", b.cfg.Name), slog.Time("until", until), slog.Any("error", err))
	}
}

// Trip makes nothing pass for d: the API has said when to come back, say. If it refuses for longer already, it stays so; a d
// that is not positive changes nothing.
func (b *Breaker) Trip(d time.Duration) {
	if d <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := time.Now().Add(d); until.After(b.openUntil) {
		b.openUntil, b.trying = until, false
	}
}

// OpenUntil returns the time until which nothing passes, in the past if it tries. It returns false if everything passes.
func (b *Breaker) OpenUntil() (until time.Time, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openUntil, !b.openUntil.IsZero()
}

// leave counts a success, a failure, or neither. It returns whether that has changed what passes, and until when nothing
// does.
func (b *Breaker) leave(succeeded, failed bool) (changed bool, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	refuses := now.Before(b.openUntil)
	switch {
	case succeeded:
		b.failures = 0
	case failed:
		b.failures++
	}
	tries := !b.openUntil.IsZero() && !refuses
	switch {
	case refuses: // what ends now has begun before
	case tries && succeeded:
		b.openUntil, b.trying, changed = time.Time{}, false, true
	case tries && failed, !tries && b.failures >= b.cfg.Failures:
		b.openUntil, b.trying, changed = now.Add(b.cfg.OpenFor), false, true
	case tries:
		b.trying = false // another one has to tell
	}
	return changed, b.openUntil
}
