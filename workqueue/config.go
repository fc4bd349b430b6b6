package workqueue

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
)

// Config is the configuration of a [Queue]. The zero value is ready for use: first in, first out, with a backoff for each
// key. What is not configured costs nothing.
type Config[K comparable] struct {
	// Name stands in the log beside what goes wrong. Defaults to "workqueue".
	Name string

	// RateLimiter gives the delays of AddRateLimited, from the failures that the queue has counted: see Backoff. The queue
	// remembers those of a key that it has nothing else to do with for an hour. Do not share a limiter that is not of this
	// package between queues: a Forget in one would reset the other. Defaults to DefaultControllerRateLimiter.
	RateLimiter RateLimiter[K]

	// MaxAttempts is the number of attempts that a key gets: an AddRateLimited after the last one parks it. Zero is no
	// limit. A call of AddRateLimited is a failed attempt, and Forget begins the count anew.
	MaxAttempts int

	// MaxElapsed is the time that a key gets from its first failure on: an AddRateLimited after that parks it. Zero is no
	// limit.
	MaxElapsed time.Duration

	// Ageing is the wait that is worth one priority: a key that is ready is overtaken by keys of a priority that is p
	// higher only if these became ready within p times Ageing after it. What was ready before there was any priority but
	// 0, and without Timestamps, counts as ready since then. Defaults to 10 s. Negative is none: then what is of low
	// priority waits for as long as there is something higher.
	Ageing time.Duration

	// Group names the group of a key. Within a priority the groups take turns, so that the many keys of one do not delay
	// the few of another. It is called without locks, should be fast, and must answer the same for a key each time. Nil is
	// no groups.
	Group func(key K) string

	// GroupLimit is the number of keys of one group that may be in process at once. What is above it waits, and keeps no
	// worker from the other groups. Zero is no limit. It requires Group.
	GroupLimit int

	// Debounce makes an added key wait until no Add of it has come for so long. It concerns additions without a delay
	// of their own alone: AddAfter is not debounced, not even with a delay of zero. Zero is none.
	Debounce time.Duration

	// DebounceLimit is the longest time for which Debounce makes a key wait, however many Adds come. It requires Debounce
	// and must not be shorter. Defaults to ten times Debounce.
	DebounceLimit time.Duration

	// HandOut limits how fast keys are handed out, all of them together. A token is taken when a key is handed out, and none
	// is reserved before, so that those who reserve tokens of the same limiter go first. A change of its limit or burst, also
	// from 0, counts from the next key on; what waits already hears of it within a minute. Nil is no limit.
	HandOut *rate.Limiter

	// Timestamps makes the queue note when each key got into its state, for Snapshot and Stats. It costs two looks at the
	// clock and 72 bytes for each key. Defaults to true when there is a hook that needs it.
	Timestamps bool

	// Hooks observe the queue.
	Hooks Hooks[K]

	// Logger receives misuse of the queue that cannot be returned to the caller. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config[K]) withDefaults() Config[K] {
	c.Name = cmp.Or(c.Name, "workqueue")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Ageing = cmp.Or(c.Ageing, 10*time.Second)
	c.DebounceLimit = max(cmp.Or(c.DebounceLimit, 10*c.Debounce), c.Debounce)
	c.Timestamps = c.Timestamps || c.Hooks.HandedOut != nil || c.Hooks.Done != nil
	return c
}

// validate returns an error that names each field that is out of its bounds.
func (c Config[K]) validate() error {
	errs := []error{
		notNegative("Config.MaxAttempts", c.MaxAttempts),
		notNegative("Config.MaxElapsed", c.MaxElapsed),
		notNegative("Config.GroupLimit", c.GroupLimit),
		notNegative("Config.Debounce", c.Debounce),
		notNegative("Config.DebounceLimit", c.DebounceLimit),
	}
	if c.GroupLimit > 0 && c.Group == nil {
		errs = append(errs, errors.New("Config.GroupLimit is set without Config.Group"))
	}
	switch {
	case c.DebounceLimit > 0 && c.Debounce == 0:
		errs = append(errs, errors.New("Config.DebounceLimit is set without Config.Debounce"))
	case c.DebounceLimit > 0 && c.DebounceLimit < c.Debounce:
		errs = append(errs, fmt.Errorf("Config.DebounceLimit is %v, less than Config.Debounce, which is %v", c.DebounceLimit, c.Debounce))
	}
	return errors.Join(errs...)
}

// notNegative returns an error that names the field if n is negative.
func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}
