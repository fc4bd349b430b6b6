package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/retry"
)

// Breaker is a circuit breaker for a service that several callers depend on. When the service seems to have failed, the breaker opens, so
// that the callers do not make things worse.
//
//	          Failures in a row             OpenFor has passed
//	closed ----------------------> open ------------------------> half-open
//	  ^                             ^                              |    |
//	  |                             '------------------------------'    |
//	  |                                   the trial fails               |
//	  '-----------------------------------------------------------------'
//	                          the trial succeeds
//
// A closed breaker lets every call through, and an open one refuses every call. A half-open breaker lets one call through at a time, the
// trial, until a trial succeeds or fails. If a trial has not returned after OpenFor, the breaker lets another call through. So a call that
// never returns does not keep the breaker open.
//
//	the call                                       closed: failures in a row  half-open
//	--------                                       -------------------------  ---------
//	returns nil                                    0                          closes
//	returns an error that is an answer             stays                      closes
//	returns an error that BreakerConfig.Counts     +1                         opens
//	panics, or calls runtime.Goexit                +1                         opens
//	returns an error after it was canceled         stays                      stays: the next call is the trial
//	is refused by a Limiter or a Breaker within    stays                      stays: the next call is the trial
//
// An answer is an error that BreakerConfig.Counts does not count: by default, one of [retry.NotYet] or [retry.Permanent], with which a working
// service refuses a call. It shows that the service is back, so a trial with it closes the breaker. But it does not end a row of failures,
// since a service may refuse bad calls although it cannot handle good ones.
//
// A call counts only if the breaker has not opened or closed since it let that call through. So a call that began before the breaker opened
// decides nothing if it ends during the trial.
//
// All methods are safe for concurrent use.
type Breaker struct {
	cfg BreakerConfig

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. trialUntil implies that openUntil is set and has passed.
	//  2. failures is 0 while openUntil is set.
	period     uint64    // of the calls that it lets through; grows whenever it opens or closes
	failures   int       // in a row
	openUntil  time.Time // open until then, half-open after that; zero while closed
	trials     uint64    // that have begun, in all periods
	trialUntil time.Time // no other trial begins before then, unless the last one returns; zero after that
	refused    uint64    // calls in this period
}

// BreakerConfig is the configuration of a [Breaker]. The zero value is ready for use.
type BreakerConfig struct {
	// Name appears in logs and errors. Defaults to "breaker".
	Name string

	// Failures is the number of failures in a row that open the breaker. Defaults to 5.
	Failures int

	// OpenFor is how long the breaker stays open. Callers come back within a fifth of it after that, not all at once. Defaults
	// to 10 s.
	OpenFor time.Duration

	// Counts reports whether an error is a failure of the service. Any other error is an answer of a service that works. Defaults to all
	// errors but those of retry.NotYet and retry.Permanent.
	Counts func(error) bool

	// Logger receives a warning each time that the breaker opens, and a message when it closes. No caller sees that. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// validate returns an error that names each field that is out of its bounds.
func (c BreakerConfig) validate() error {
	var errs []error
	if c.Failures < 0 {
		errs = append(errs, fmt.Errorf("BreakerConfig.Failures is %d, must not be negative", c.Failures))
	}
	if c.OpenFor < 0 {
		errs = append(errs, fmt.Errorf("BreakerConfig.OpenFor is %v, must not be negative", c.OpenFor))
	}
	return problems.Join(errs...)
}

// NewBreaker returns a closed breaker. The error names each field of cfg that is out of its bounds.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("gate: new breaker: %w", err)
	}
	cfg.Name = cmp.Or(cfg.Name, "breaker")
	cfg.Failures = cmp.Or(cfg.Failures, 5)
	cfg.OpenFor = cmp.Or(cfg.OpenFor, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Counts == nil {
		cfg.Counts = func(err error) bool { return !retry.IsNotYet(err) && !retry.IsPermanent(err) }
	}
	return &Breaker{cfg: cfg}, nil
}

// Do calls call and returns its error. If the breaker refuses the call, Do returns an error of [retry.NotYet], which says when to
// try again.
func (b *Breaker) Do(ctx context.Context, call func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("gate: call through %q: %w", b.cfg.Name, context.Cause(ctx))
	}
	pass, wait := b.enter()
	if wait > 0 {
		return refuse(fmt.Errorf("gate: the circuit breaker %q is open", b.cfg.Name), wait)
	}
	err := errors.New("gate: the call panicked, or called runtime.Goexit")
	result := failed
	defer func() { b.leave(ctx, pass, result, err) }()
	err = call(ctx)
	result = unknown // if Counts panics
	switch {
	case err == nil:
		result = succeeded
	case ctx.Err() == context.Canceled:
	case b.cfg.Counts(err):
		result = failed
	case !errors.As(err, new(*refusal)):
		result = answered
	}
	return err
}

// result is what a call says about the service.
type result int

const (
	unknown   result = iota // nothing
	succeeded               // it works
	answered                // it works, and has refused the call
	failed                  // it does not work
)

// refusal is the error of a call that a Limiter or a Breaker has not let through. It says nothing about the service.
type refusal struct{ error }

// refuse returns an error of retry.NotYet for a call that may be made after d.
func refuse(err error, d time.Duration) error { return retry.NotYet(&refusal{err}, d) }

// OpenUntil returns the time until which the breaker is open. If the breaker is half-open, that time is in the past. If the breaker
// is closed, OpenUntil returns false.
func (b *Breaker) OpenUntil() (until time.Time, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openUntil, !b.openUntil.IsZero()
}

// pass is what the breaker has to know of a call that it has let through.
type pass struct {
	period uint64 // in which the call began
	trial  uint64 // the number of the last trial that had begun by then: of the call itself, if it is one
}

// enter returns a pass if a call may be made now, or else the time after which to retry.
func (b *Breaker) enter() (p pass, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch wait = time.Until(b.openUntil); {
	case b.openUntil.IsZero():
		return pass{b.period, b.trials}, 0
	case wait > 0:
	case time.Until(b.trialUntil) > 0:
		wait = min(time.Second, b.cfg.OpenFor)
	default:
		b.trials++
		b.trialUntil = time.Now().Add(b.cfg.OpenFor)
		return pass{b.period, b.trials}, 0
	}
	extra := min(b.spreadLocked(), math.MaxInt64-wait)
	b.refused++
	return pass{}, wait + extra
}

// spreadLocked returns the extra delay of the next refused caller. The multiples of the golden ratio spread any number of callers evenly.
func (b *Breaker) spreadLocked() time.Duration {
	const ratio = 11400714819323198485 // of 1<<64
	return time.Duration(float64(b.refused*ratio>>11) / (1 << 53) * float64(b.cfg.OpenFor/5))
}

// leave counts a call, and logs a change of state, which no caller sees.
func (b *Breaker) leave(ctx context.Context, p pass, r result, err error) {
	changed, until := b.count(p, r)
	switch {
	case !changed:
	case until.IsZero():
		b.cfg.Logger.InfoContext(ctx, "circuit breaker closed", slog.String("breaker", b.cfg.Name))
	default:
		b.cfg.Logger.WarnContext(ctx, "circuit breaker opened", slog.String("breaker", b.cfg.Name), slog.Time("until", until), slog.Any("error", err))
	}
}

// count counts the result of a call. It returns whether the breaker has opened or closed because of it, and until when it is open.
func (b *Breaker) count(p pass, r result) (changed bool, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.period != b.period {
		return false, b.openUntil
	}
	trial := !b.openUntil.IsZero()
	switch {
	case trial && (r == succeeded || r == answered):
		b.openLocked(time.Time{})
		return true, b.openUntil
	case trial && r == unknown:
		if p.trial == b.trials { // otherwise a later trial is in flight
			b.trialUntil = time.Time{} // the next call is the trial
		}
	case r == succeeded:
		b.failures = 0
	case r == failed:
		b.failures++
		if trial || b.failures >= b.cfg.Failures {
			b.openLocked(time.Now().Add(b.cfg.OpenFor))
			return true, b.openUntil
		}
	}
	return false, b.openUntil
}

// openLocked opens the breaker until then, or closes it if that is the zero time. Calls that it has already let through no longer count.
func (b *Breaker) openLocked(until time.Time) {
	b.period++
	b.failures, b.openUntil, b.trialUntil, b.refused = 0, until, time.Time{}, 0
}
