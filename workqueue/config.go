package workqueue

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// Config is the configuration of a [Queue]. The zero value is ready for use: first in, first out, with a backoff per key.
// Features that are not configured cost nothing.
//
// The queue logs a panic of a function in the Config, with its stack, in whichever goroutine it called the function: no addition is lost, and
// no worker ends. Of a hook, or of a limiter's Forget, that changes nothing. Group and RateLimiter say what theirs means.
type Config[K comparable] struct {
	// Name identifies the queue in the log and in errors. Defaults to "workqueue".
	Name string

	// RateLimiter computes the delays of AddRateLimited from the failures that the queue has counted: see Backoff. Do not share a
	// limiter from another package between queues, because a Forget in one queue would reset the other. If When panics, the delay is that of
	// the default. Defaults to DefaultControllerRateLimiter.
	RateLimiter RateLimiter[K]

	// MaxAttempts is the number of attempts that a key gets. The failure of the last attempt parks the key. Attempts that fail before the
	// latest backoff of the key has ended do not count: see [Queue.AddRateLimited]. Zero is no limit.
	MaxAttempts int

	// MaxElapsed is the time that a key has to succeed, counted from its first failure, or in Run from its first attempt that failed or did
	// not finish. A failure after that time parks the key. In Run, so does an attempt that does not finish, and no unfinished key waits past
	// that time: its last attempt comes when the time is over. Zero is no limit.
	MaxElapsed time.Duration

	// RememberFailures is how long the queue remembers the failures of a key that it no longer has for another reason, such as one whose
	// backoff was canceled, or whose work is not finished and waits for an Add. After that the key has a whole budget. Defaults to an hour.
	// A negative value means until Forget: the memory is bounded only by the number of keys that have failed.
	RememberFailures time.Duration

	// Aging is the waiting time that is worth one priority. A key of priority r overtakes a ready key of a lower priority p only if it
	// became ready within (r-p) times Aging after it. With groups, this holds for the keys whose turn it is in their priority. If
	// neither Timestamps nor Group is set, keys that became ready before the first use of a priority other than 0 count as ready since that
	// use. Defaults to 10 s. A negative value turns aging off: a key of low priority waits as long as there are keys of higher priority.
	Aging time.Duration

	// Group returns the name of a key's group. Within a priority, the groups that have keys to dispatch take turns, and each group is first
	// in, first out. So the many keys of one group do not delay the few of another. The queue calls Group without locks. Group should be
	// fast, and must always return the same name for a key. If it panics, the group of the key is "". Nil means no groups.
	Group func(key K) string

	// GroupLimit is the number of keys of one group that may be in process at once. The other keys of the group wait without occupying a
	// worker. Zero is no limit. It requires Group.
	GroupLimit int

	// Debounce delays an added key until this time, the quiet time, has passed without another Add of the key. Zero is none.
	//
	// It applies to an Add, or an AddWith without After, At, RateLimited, and Final, of a key that is absent, in process, or parked. When
	// the quiet time is over, the key changes state as the column Add of the contract says. Until then, the Add changes neither the state
	// nor the other deadlines. Ready and dirty keys are not debounced. Additions with a delay are not debounced either, not even with a delay
	// of zero: AddAfter(key, 0) acts at once.
	//
	// The quiet time ends early when something else makes the key ready or dirty, and when Cancel is called. A shutdown makes keys in their
	// quiet time ready or dirty at once, in the order in which their quiet times would have ended. AddRateLimited, Forget, Done, and
	// DropParked do not end it. If the budget is spent during the quiet time, the key is parked, and the end of the quiet time revives it.
	Debounce time.Duration

	// DebounceLimit is the longest time for which Debounce delays a key, no matter how many Adds follow. It requires Debounce and must not
	// be shorter. Defaults to ten times Debounce.
	DebounceLimit time.Duration

	// DispatchLimit limits how fast the queue dispatches keys, all of them together. The queue takes a token when it dispatches a key and
	// reserves none ahead, so callers that reserve tokens of the same limiter go first. [Item.Skip] returns the token of a key whose work
	// does not begin. If the limiter's limit or burst changes, even from
	// 0, waiting workers notice within a minute. Nil is no limit.
	DispatchLimit *rate.Limiter

	// Timestamps records when each key entered its state, for Snapshot, All, Info, Stats, Totals, and OldestReady. It costs 96 bytes per
	// key, and a reading of the clock when a key becomes ready, is dispatched, and is done. It is always on if a hook needs it.
	Timestamps bool

	// Hooks observe the queue.
	Hooks Hooks[K]

	// Logger receives the failures of Run, and misuse of the queue that cannot be returned to a caller. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config[K]) withDefaults() Config[K] {
	c.Name = cmp.Or(c.Name, "workqueue")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Aging = cmp.Or(c.Aging, 10*time.Second)
	c.RememberFailures = cmp.Or(c.RememberFailures, time.Hour)
	c.DebounceLimit = max(cmp.Or(c.DebounceLimit, 10*c.Debounce), c.Debounce)
	c.Timestamps = c.Timestamps || c.Hooks.Dispatched != nil || c.Hooks.Done != nil
	return c.guarded()
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
	return problems.Join(errs...)
}

// notNegative returns an error that names the field if n is negative.
func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}

// Hooks observe a [Queue]. Each may be nil. The queue calls them without locks, so they may call the queue, except Drain, ShutDownWithDrain,
// and WaitIdle, which may wait for the hook itself. Several hooks may run concurrently. A hook runs in the goroutine of the call that caused
// it, or of the timer if a deadline caused it. It runs after the call has taken effect. So Dispatched may be called for a key before Added
// is. Drain waits for the hooks that the timer calls. Hooks should be fast. A panic of a hook is logged with its stack, and changes nothing.
// Together with [Queue.Stats] they give all seven metrics of client-go's workqueue:
//
//	workqueue_adds_total                     Added
//	workqueue_depth                          Stats: Ready + Dirty, or DepthByPriority
//	workqueue_queue_duration_seconds         Dispatched
//	workqueue_work_duration_seconds          Done
//	workqueue_retries_total                  Delayed
//	workqueue_unfinished_work_seconds        Stats: Unfinished
//	workqueue_longest_running_processor_seconds  Stats: LongestRunning
//
// [Queue.Totals] gives the same counts and durations without hooks.
type Hooks[K comparable] struct {
	// Added reports that an addition made a key ready or dirty. An addition that changes nothing is not reported. A delayed or debounced
	// addition is reported when it is due. So, once the calls have returned, the depth is the number of Added calls minus that of
	// Dispatched calls, except for canceled keys. With Raised, that also holds for each priority.
	Added func(key K, priority int)

	// Raised reports that an addition has changed the priority of a key that was ready or dirty.
	Raised func(key K, from, to int)

	// Dispatched reports that a worker got a key, and how long the key had waited: since the addition that made it ready or dirty. So the
	// rest of an attempt counts, if the key was added during it, and delays do not.
	Dispatched func(key K, priority int, waited time.Duration)

	// Done reports that a worker is done with a key, and how long the key was in process.
	Done func(key K, took time.Duration)

	// Delayed reports the delay of an AddAfter, of an AddRateLimited, and of an AddWith with After, At, or RateLimited. It does not report
	// a failure that spends the budget, nor one of a parked key. Delayed is called even if the call schedules nothing. That happens if the
	// delay is zero, if the deadline that the key already has stands, or if the key is about to be tried anyway.
	Delayed func(key K, d time.Duration)

	// Parked reports that a key was parked, after this number of failed attempts.
	Parked func(key K, attempts int)

	// StrayDone reports a Queue.Done of a key that is not in process. Defaults to an error in the log. An Item.Done is never reported.
	StrayDone func(key K)
}

// recovered logs a panic of the caller's function that is named. It is deferred around the call.
func (c *Config[K]) recovered(function string) {
	if v := recover(); v != nil {
		c.Logger.Error("a function of the Config panicked", "queue", c.Name, "function", function,
			"error", &panicError{value: v}, "stack", string(debug.Stack()))
	}
}

// guarded returns c with functions that do not panic.
func (c Config[K]) guarded() Config[K] {
	log := &Config[K]{Name: c.Name, Logger: c.Logger}
	if group := c.Group; group != nil {
		c.Group = func(key K) string {
			defer log.recovered("Group")
			return group(key)
		}
	}
	hooks := c.Hooks
	c.Hooks.Added = guard2(log, "Hooks.Added", hooks.Added)
	c.Hooks.Raised = guard3(log, "Hooks.Raised", hooks.Raised)
	c.Hooks.Dispatched = guard3(log, "Hooks.Dispatched", hooks.Dispatched)
	c.Hooks.Done = guard2(log, "Hooks.Done", hooks.Done)
	c.Hooks.Delayed = guard2(log, "Hooks.Delayed", hooks.Delayed)
	c.Hooks.Parked = guard2(log, "Hooks.Parked", hooks.Parked)
	c.Hooks.StrayDone = guard(log, "Hooks.StrayDone", hooks.StrayDone)
	return c
}

// guard returns a hook that does not panic. A nil hook stays nil.
func guard[K comparable](log *Config[K], name string, hook func(K)) func(K) {
	if hook == nil {
		return nil
	}
	return func(key K) {
		defer log.recovered(name)
		hook(key)
	}
}

// guard2 is guard for a hook with two arguments.
func guard2[K comparable, V int | time.Duration](log *Config[K], name string, hook func(K, V)) func(K, V) {
	if hook == nil {
		return nil
	}
	return func(key K, v V) {
		defer log.recovered(name)
		hook(key, v)
	}
}

// guard3 is guard for a hook with three arguments.
func guard3[K comparable, V int | time.Duration](log *Config[K], name string, hook func(K, int, V)) func(K, int, V) {
	if hook == nil {
		return nil
	}
	return func(key K, priority int, v V) {
		defer log.recovered(name)
		hook(key, priority, v)
	}
}
