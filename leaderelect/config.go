package leaderelect

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Config configures an [Elector]. Store, Key, and OnStartedLeading are required. Every other field has a useful default.
//
// The three durations of client-go keep their meaning and their defaults: 15s, 10s, and 2s. Electors of one record may have
// different durations, because a follower uses the LeaseDuration in the record.
//
// OnStartedLeading and OnStoppedLeading are called one after the other. OnNewLeader and OnStepDownOverrun may run
// concurrently with them. A panic in a callback is captured.
type Config struct {
	// Store keeps the record.
	Store LeaseStore

	// Key names the record in the store. Electors that have the same store and the same key compete.
	Key string

	// Identity names this elector to people. It decides nothing, so it need not be unique. Defaults to host_pid.
	Identity string

	// LeaseDuration is how long a follower waits after the last change of the record before it takes over. From 100ms to
	// 24h. Defaults to 15s.
	LeaseDuration time.Duration

	// RenewDeadline is how long a leader leads without a successful renewal. It counts from before the last successful
	// renewal was sent. Less than LeaseDuration. Defaults to two thirds of LeaseDuration: 10s.
	RenewDeadline time.Duration

	// RetryPeriod is the time between two renewals, and between two reads of a follower, which adds up to 20% of jitter.
	// If the store is a [Watcher] and reports the renewals, a follower reads only after two periods of silence. At least
	// 10ms, and at most half of RenewDeadline. Defaults to a fifth of RenewDeadline: 2s.
	RetryPeriod time.Duration

	// RequestTimeout is the timeout of each call of the store. Calls run in goroutines of their own. If a call does not
	// return in time, the elector stops waiting and drops the result. If a store ignores its contexts, at most eight calls
	// are left behind. The elector then makes no more until one of them returns.
	//
	// A short timeout gives a leader more attempts before its deadline. A long one suits a slow store. With a quarter of
	// RenewDeadline, a leader survives outages of three quarters of it. With a half, it survives outages of one half. At
	// least 1ms, and less than RenewDeadline. Defaults to a quarter of RenewDeadline: 2.5s.
	RequestTimeout time.Duration

	// StepDownTimeout is how long the work and OnStoppedLeading may take to return after the lease is lost. RenewDeadline
	// and StepDownTimeout together must fit in LeaseDuration, with MaxClockRateSkew to spare. Defaults to all the time that
	// is left: 2.5s.
	StepDownTimeout time.Duration

	// DrainTimeout is how long the elector keeps the lease while the work drains, after the caller of Run cancels or after
	// Resign. Then [Leadership.Context] ends and the elector stops renewing. Defaults to 30s. A negative value means no
	// limit.
	DrainTimeout time.Duration

	// MaxClockRateSkew is how much the clocks of two machines may differ in speed. Their time of day does not matter. The
	// default covers two clocks that chrony slews in opposite directions. docs/leaderelection.md says when a smaller value
	// is safe; it leaves more time for StepDownTimeout. Less than 1. Defaults to 0.2, which is 20%. A negative value means
	// no skew.
	MaxClockRateSkew float64

	// ReleaseOnCancel releases the lease after the caller of Run has canceled and the work has returned. Then another
	// elector need not wait until the lease expires. If the work returns by itself, the lease is always released.
	ReleaseOnCancel bool

	// Metadata is shown to followers in [Leader]. It can carry an address, for example.
	Metadata map[string]string

	// OnStartedLeading is the work of the leader. It runs in its own goroutine, blocks while there is work, and must return
	// soon after ctx ends. If the caller of Run cancels, ctx ends and the elector keeps the lease while the work drains. If
	// the lease is lost, ctx ends and the work must stop at once: see [Leadership.Context].
	//
	// If it returns by itself, or panics, the term is over and the lease is released. Required.
	OnStartedLeading func(ctx context.Context, l *Leadership) error

	// OnStoppedLeading is called after each OnStartedLeading, before the lease is released. Its cause is the reason why the
	// lease was lost, or the cause of the caller's context. Either is joined with the error of the work, unless that only
	// repeats it. If the work has returned by itself, the cause is its result: nil, an error, or a *wait.PanicError.
	// Optional.
	OnStoppedLeading func(l *Leadership, cause error)

	// OnNewLeader is called when the record shows a new leadership, including one of this elector. Its calls run one at a
	// time, in their own goroutine, concurrently with the other callbacks. It is not called for leaders that came and went
	// during a call. Run returns only after it has returned. Optional.
	OnNewLeader func(Leader)

	// OnStepDownOverrun is called if the work, and OnStoppedLeading after it, have not returned within StepDownTimeout after
	// the lease was lost. Another elector may then lead at the same time. It is called once per term, concurrently with
	// these two. A process that cannot stop its work otherwise should exit here: see [ExitOnOverrun]. By default, an error
	// is logged.
	OnStepDownOverrun func(l *Leadership)

	// With Sessions, followers notice within milliseconds that the leader has released the lease, or that its process has
	// ended. The store need not be a [Watcher]. Each elector holds a session while it runs, and opens a new one after a
	// release. A leader names its session in the record. A follower that sees the session end reads the record. Run waits
	// up to RetryPeriod for its first session before it competes. If sessions fail, followers wait for the lease. Optional.
	Sessions Sessions

	// Fenced asserts that every effect of the work carries the term of its [Leadership], and that every receiver rejects
	// stale terms: with a guarded transaction, a store.Store, or package fence. A leader declares this in its record. If the
	// session of a fenced leader ends, a fenced follower replaces the record at once, even if it was not released. So a new
	// leader follows within milliseconds after a crash. This happens at most once per LeaseDuration. A leader that does
	// not declare Fenced is never replaced early, and a follower without Fenced waits for the lease even after a fenced
	// leader has released it. So a rolling deployment can turn the flag on.
	//
	// A leader can also lose its session while it lives, if its connection is cut. Then two leaders work until a watch or
	// the next renewal stops the old one. Only the fence makes that safe. Fenced requires Sessions.
	Fenced bool

	// Rand returns random numbers in [0, 1) for jitter. It is called concurrently. If it panics or returns any other number,
	// 0.5 is used. Defaults to Float64 of math/rand/v2.
	Rand func() float64

	// Hooks observe the elector, for metrics.
	Hooks Hooks

	// Link makes this elector act as one with the other electors of its replica. Package shard sets it for each slot. Leave
	// it nil: nobody else can make one.
	Link *lease.Link

	// Logger receives changes of leadership and failures of the store. Failures of one kind are logged at most once in ten
	// seconds. Defaults to slog.Default().
	Logger *slog.Logger
}

// The jitter of followers: in each period between reads, and before they take over a lease that has expired.
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

// usableLease is the part of LeaseDuration that ends on our clock before LeaseDuration ends on any follower's clock.
func (c Config) usableLease() time.Duration {
	return time.Duration(float64(c.LeaseDuration) / (1 + c.MaxClockRateSkew))
}

// validate returns an error that names each field of c that is out of its bounds. c does not have its defaults: the error names the fields
// that the caller has set, and not those that were computed from them. name is the caller's name for c.
func (c Config) validate(name string) error {
	d := c.withDefaults()
	var errs []error
	check := func(ok bool, field, format string, args ...any) bool {
		if !ok {
			errs = append(errs, fmt.Errorf("%s.%s %s", name, field, fmt.Sprintf(format, args...)))
		}
		return ok
	}
	check(d.Store != nil, "Store", "is required")
	check(d.Key != "", "Key", "is required")
	check(d.Identity != "", "Identity", "is required: the host has no name")
	check(d.OnStartedLeading != nil, "OnStartedLeading", "is required")
	check(d.Sessions != nil || !d.Fenced, "Sessions", "are required with Fenced")

	skewed := check(d.MaxClockRateSkew < 1, "MaxClockRateSkew", "is %v, must be less than 1", d.MaxClockRateSkew)
	leased := check(d.LeaseDuration >= 100*time.Millisecond, "LeaseDuration", "is %s, must be at least 100ms", d.LeaseDuration) &&
		check(d.LeaseDuration <= lease.MaxLease, "LeaseDuration", "is %s, must be at most 24h", d.LeaseDuration)
	renews := check(d.RenewDeadline > 0 || !leased, "RenewDeadline", "is %s, must be positive", d.RenewDeadline) && leased
	if renews && skewed {
		d.checkStepDown(c, check)
	}
	renewal := which(c.RenewDeadline, d.RenewDeadline)
	switch {
	case c.RetryPeriod == 0:
		check(!renews || d.RetryPeriod >= minRetryPeriod, "RenewDeadline",
			"is %s, must be at least 50ms, because RetryPeriod defaults to a fifth of it and must be at least 10ms", d.RenewDeadline)
	case check(d.RetryPeriod >= minRetryPeriod, "RetryPeriod", "is %s, must be at least 10ms", d.RetryPeriod):
		check(!renews || d.RenewDeadline/2 >= d.RetryPeriod, "RetryPeriod", "is %s, must be at most half of RenewDeadline, which %s",
			d.RetryPeriod, renewal)
	}
	if c.RequestTimeout != 0 && check(d.RequestTimeout >= time.Millisecond, "RequestTimeout", "is %s, must be at least 1ms", d.RequestTimeout) {
		check(!renews || d.RequestTimeout < d.RenewDeadline, "RequestTimeout", "is %s, must be less than RenewDeadline, which %s",
			d.RequestTimeout, renewal)
	}
	return problems.Join(errs...)
}

// minRetryPeriod is the least RetryPeriod.
const minRetryPeriod = 10 * time.Millisecond

// checkStepDown checks that LeaseDuration leaves time for StepDownTimeout after RenewDeadline, on every follower's clock. set has only the
// fields that the caller has set. Unless RenewDeadline or MaxClockRateSkew is set, the defaults leave time.
func (c Config) checkStepDown(set Config, check func(ok bool, field, format string, args ...any) bool) {
	usable := c.usableLease()
	spare := usable - c.RenewDeadline
	of := which(set.LeaseDuration, c.LeaseDuration)
	switch {
	case spare <= 0 && set.RenewDeadline != 0:
		check(false, "RenewDeadline",
			"is %s, must be less than %s, so that LeaseDuration, which %s, leaves time for MaxClockRateSkew, which %s, and StepDownTimeout",
			c.RenewDeadline, usable, of, which(set.MaxClockRateSkew, c.MaxClockRateSkew))
	case spare <= 0:
		check(false, "MaxClockRateSkew",
			"is %v, must be less than 0.5, so that LeaseDuration, which %s, leaves time for StepDownTimeout after RenewDeadline, which defaults to %s",
			c.MaxClockRateSkew, of, c.RenewDeadline)
	case check(c.StepDownTimeout > 0, "StepDownTimeout", "is %s, must be positive", c.StepDownTimeout):
		check(c.StepDownTimeout <= spare, "StepDownTimeout",
			"is %s, must fit in the %s that LeaseDuration leaves after RenewDeadline, with MaxClockRateSkew to spare", c.StepDownTimeout, spare)
	}
}

// which says what a field is, or what it defaults to if it was not set.
func which[T comparable](set, value T) string {
	var zero T
	if set == zero {
		return fmt.Sprintf("defaults to %v", value)
	}
	return fmt.Sprintf("is %v", value)
}
