package leaderelect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Config is what an [Elector] needs to know. Store, Key and OnStartedLeading are required. The zero value of every other
// field is a good default.
//
// The three durations of client-go keep their meaning and its defaults: 15s, 10s and 2s. Electors of one record may have
// different ones, because a follower goes by the LeaseDuration in the record.
//
// OnStartedLeading and OnStoppedLeading are called one after the other. OnNewLeader and OnStepDownOverrun may run
// concurrently with them. A panic in a callback is captured.
type Config struct {
	// Store keeps the record.
	Store LeaseStore

	// Key names the record in the store. Electors that have the same store and the same key compete.
	Key string

	// Identity names this elector to people. Nothing is decided by it, so it need not be unique. Defaults to host_pid.
	Identity string

	// LeaseDuration is how long a follower waits after the last change that it has seen before it takes over. From 100ms
	// to 24h. Defaults to 15s.
	LeaseDuration time.Duration

	// RenewDeadline is how long after its last good renewal a leader stops leading, counted from before that renewal
	// was sent. Less than LeaseDuration. Defaults to two thirds of it: 10s.
	RenewDeadline time.Duration

	// RetryPeriod is the time between two renewals, and between two reads of a follower, which adds up to 20% of jitter.
	// If the store is a [Watcher] and reports the renewals, a follower reads only after two periods of silence. At least 10ms, and at most half of RenewDeadline. Defaults to a fifth of it: 2s.
	RetryPeriod time.Duration

	// RequestTimeout ends a call of the store. Each call runs in a goroutine of its own. If it does not return in time,
	// the elector leaves it alone and drops its result. A store that ignores the end of its context has up to eight such
	// calls; then the elector makes no more until one returns.
	//
	// A shorter timeout leaves a leader more attempts before its deadline; a longer one suits a slow store. With a quarter
	// of RenewDeadline, a leader survives outages of three quarters of it; with a half, of one half. At least 1ms, and
	// less than RenewDeadline. Defaults to a quarter of it: 2.5s.
	RequestTimeout time.Duration

	// StepDownTimeout is how long the work may take to return once the lease is lost. RenewDeadline and StepDownTimeout
	// together must fit in LeaseDuration, with MaxClockRateSkew to spare. Defaults to all that is left: 2.5s.
	StepDownTimeout time.Duration

	// DrainTimeout is how long the elector keeps the lease while the work drains, after the caller of Run has canceled or
	// after a Resign. Then [Leadership.Context] ends and the elector renews no more. Defaults to 30s. Negative is no
	// limit: until the work returns.
	DrainTimeout time.Duration

	// MaxClockRateSkew is how much the clocks of two machines may differ in speed. The times that they show do not matter.
	// The default allows for two machines whose chrony, at its default maxslewrate, corrects them by 8.3% in opposite
	// directions: 1.083/0.917 = 1.18. Machines whose clocks are stepped, or slewed by ntpd or systemd-timesyncd (0.05%),
	// can do with 0.01 and have more time for StepDownTimeout. Less than 1. Defaults to 0.2, twenty percent. Negative is
	// none.
	MaxClockRateSkew float64

	// ReleaseOnCancel releases the lease when the caller of Run has canceled and the work has returned, so that another
	// elector need not wait for the lease to expire. When the work returns by itself the lease is released in any case.
	ReleaseOnCancel bool

	// Metadata is shown to followers in [Leader], for example an address.
	Metadata map[string]string

	// OnStartedLeading is the work of the leader. It has a goroutine of its own, blocks for as long as there is work, and
	// must return soon after ctx has ended. When the caller of Run cancels, ctx ends and the lease is kept while the work
	// drains. When the lease is lost, ctx ends and every moment counts: see [Leadership.Context].
	//
	// If it returns by itself, or panics, the term is over and the lease is released. Required.
	OnStartedLeading func(ctx context.Context, l *Leadership) error

	// OnStoppedLeading is called after each OnStartedLeading, before the lease is released. The cause is why the lease was
	// lost, or the cause of the end of the caller's context. Either is joined with the error of the work if that says
	// more. If the work has returned by itself, the cause is what it returned: nil, an error, or a *wait.PanicError.
	// Optional.
	OnStoppedLeading func(l *Leadership, cause error)

	// OnNewLeader is called when the record shows another leadership than before, also one of this elector. It has a
	// goroutine of its own: it may run concurrently with the other callbacks, and delays none of them. It is not called
	// for leaders that came and went during a call. Run returns only after it has returned. Optional.
	OnNewLeader func(Leader)

	// OnStepDownOverrun is called when the work has not returned StepDownTimeout after the lease was lost, so another
	// elector may lead at the same time. It runs concurrently with OnStartedLeading, once per term. A process that cannot
	// stop its work otherwise should exit here: see [ExitOnOverrun]. Defaults to an error in the log.
	OnStepDownOverrun func(l *Leadership)

	// Sessions tell followers at once that the process of the leader is gone, or that it has released. Each elector holds a
	// session while it runs, and another one after a release. A leader names its session in the record. A follower that
	// sees that session end reads the record, so it takes a lease that was released within milliseconds, also in a store
	// that is no [Watcher]. Run waits up to RetryPeriod for its first session before it competes. Sessions that fail cost
	// time and change nothing else. Optional.
	Sessions Sessions

	// Fenced is your word that every effect of the work carries the term of its [Leadership], and that the receiver
	// refuses a term that is out of date: by a guarded transaction, a store.Store, or package fence. A leader declares it
	// in its record. If the session of a fenced leader has ended, a fenced follower replaces the record at once, released
	// or not, at most once in a LeaseDuration. So the next leader follows within milliseconds after a crash. While a
	// deployment turns the flag on, no leader that lacks it is replaced early.
	//
	// A leader that lives can lose its session too, when its connection is cut. Then two leaders work concurrently, until
	// a watch or its next renewal tells the old one. Only the fence makes that safe. Fenced requires Sessions.
	Fenced bool

	// Rand returns random numbers in [0, 1), for jitter. Goroutines call it concurrently. If it panics, or returns another
	// number, one half is used. Defaults to math/rand/v2's Float64.
	Rand func() float64

	// Hooks observe the elector, for metrics.
	Hooks Hooks

	// Logger gets changes of leadership and failures of the store. Failures of one kind are logged once in ten seconds.
	// Defaults to slog.Default().
	Logger *slog.Logger
}

// The jitter of followers: on each look, and before taking over a lease that has expired.
const (
	pollJitter     = 0.2
	takeoverJitter = 50 * time.Millisecond
)

// withDefaults returns a copy of c with every default in place.
func (c Config) withDefaults() Config {
	if c.Identity == "" {
		if host, err := os.Hostname(); err == nil {
			c.Identity = fmt.Sprintf("%s_%d", host, os.Getpid())
		}
	}
	if c.MaxClockRateSkew < 0 {
		c.MaxClockRateSkew = 0
	} else {
		c.MaxClockRateSkew = cmp.Or(c.MaxClockRateSkew, 0.2)
	}
	c.LeaseDuration = cmp.Or(c.LeaseDuration, 15*time.Second)
	c.RenewDeadline = cmp.Or(c.RenewDeadline, c.LeaseDuration/3*2)
	c.RetryPeriod = cmp.Or(c.RetryPeriod, c.RenewDeadline/5)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, c.RenewDeadline/4)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.StepDownTimeout = cmp.Or(c.StepDownTimeout, c.usableLease()-c.RenewDeadline)
	c.Metadata = maps.Clone(c.Metadata)
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// usableLease is the part of LeaseDuration that has passed on no follower's clock before it has passed on ours.
func (c Config) usableLease() time.Duration {
	return time.Duration(float64(c.LeaseDuration) / (1 + c.MaxClockRateSkew))
}

// validate returns an error that names each field of c, with its defaults in place, that is out of its bounds. name is what
// the caller calls c.
func (c Config) validate(name string) error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s.%s %s", name, field, fmt.Sprintf(format, args...)))
		}
	}
	spare := c.usableLease() - c.RenewDeadline
	check(c.Store != nil, "Store", "is required")
	check(c.Key != "", "Key", "is required")
	check(c.Identity != "", "Identity", "is required: the host has no name")
	check(c.OnStartedLeading != nil, "OnStartedLeading", "is required")
	check(c.LeaseDuration >= 100*time.Millisecond, "LeaseDuration", "is %s, must be at least 100ms", c.LeaseDuration)
	check(c.LeaseDuration <= lease.MaxLease, "LeaseDuration", "is %s, must be at most 24h", c.LeaseDuration)
	check(c.RenewDeadline > 0, "RenewDeadline", "is %s, must be positive", c.RenewDeadline)
	check(c.RetryPeriod >= 10*time.Millisecond, "RetryPeriod", "is %s, must be at least 10ms", c.RetryPeriod)
	check(c.LeaseDuration > c.RenewDeadline, "LeaseDuration", "is %s, must be greater than RenewDeadline, which is %s",
		c.LeaseDuration, c.RenewDeadline)
	check(c.RenewDeadline/2 >= c.RetryPeriod, "RenewDeadline", "is %s, must be at least twice RetryPeriod, which is %s",
		c.RenewDeadline, c.RetryPeriod)
	check(c.RequestTimeout >= time.Millisecond, "RequestTimeout", "is %s, must be at least 1ms", c.RequestTimeout)
	check(c.RequestTimeout < c.RenewDeadline, "RequestTimeout", "is %s, must be less than RenewDeadline, which is %s",
		c.RequestTimeout, c.RenewDeadline)
	check(c.Sessions != nil || !c.Fenced, "Sessions", "are required with Fenced, which has no meaning without")
	check(c.MaxClockRateSkew < 1, "MaxClockRateSkew", "is %v, must be less than 1", c.MaxClockRateSkew)
	check(c.StepDownTimeout > 0, "StepDownTimeout",
		"is %s, must be positive; LeaseDuration leaves %s after RenewDeadline, with MaxClockRateSkew to spare",
		c.StepDownTimeout, spare)
	check(c.StepDownTimeout <= spare, "StepDownTimeout",
		"is %s, must fit in the %s that LeaseDuration leaves after RenewDeadline, with MaxClockRateSkew to spare",
		c.StepDownTimeout, spare)
	return errors.Join(errs...)
}
