package workqueue

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// Config is the configuration of a [Queue]. The zero value is ready for use: first in, first out, with a backoff per key.
// Features that are not configured cost nothing.
type Config[K comparable] struct {
	// Name identifies the queue in the log and in errors. Defaults to "workqueue".
	Name string

	// RateLimiter computes the delays of AddRateLimited from the failures that the queue has counted: see Backoff. Do not share a
	// limiter from another package between queues, because a Forget in one queue would reset the other. Defaults to
	// DefaultControllerRateLimiter.
	RateLimiter RateLimiter[K]

	// MaxAttempts is the number of attempts that a key gets. The failure of the last attempt parks the key. Zero is no limit.
	MaxAttempts int

	// MaxElapsed is the time that a key has to succeed, counted from its first failure. A failure after that time parks the key. Zero is no
	// limit.
	MaxElapsed time.Duration

	// Aging is the waiting time that is worth one priority. A key of priority r overtakes a ready key of a lower priority p only if it
	// became ready within (r-p) times Aging after it. With groups, this holds for the keys whose turn it is in their priority. If
	// neither Timestamps nor Group is set, keys that became ready before the first use of a priority other than 0 count as ready since that
	// use. Defaults to 10 s. A negative value turns aging off: a key of low priority waits as long as there are keys of higher priority.
	Aging time.Duration

	// Group returns the name of a key's group. Within a priority, the groups that have keys to dispatch take turns, and each group is first
	// in, first out. So the many keys of one group do not delay the few of another. The queue calls Group without locks. Group should be
	// fast, and must always return the same name for a key. Nil means no groups.
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
	// reserves none ahead, so callers that reserve tokens of the same limiter go first. If the limiter's limit or burst changes, even from
	// 0, waiting workers notice within a minute. Nil is no limit.
	DispatchLimit *rate.Limiter

	// Timestamps records when each key entered its state, for Snapshot, All, Info, Stats, Totals, and OldestReady. It costs 72 bytes per
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
	c.DebounceLimit = max(cmp.Or(c.DebounceLimit, 10*c.Debounce), c.Debounce)
	c.Timestamps = c.Timestamps || c.Hooks.Dispatched != nil || c.Hooks.Done != nil
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
	return problems.Join(errs...)
}

// notNegative returns an error that names the field if n is negative.
func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}

// Hooks observe a [Queue]. Each may be nil. The queue calls them without locks, so they may call the queue, and several may run
// concurrently. A hook runs in the goroutine of the call that caused it, or of the timer if a deadline caused it. It runs after the call has
// taken effect. So Dispatched may be called for a key before Added is. Hooks should be fast. Together with
// [Queue.Stats] they give all seven metrics of client-go's workqueue:
//
//	workqueue_adds_total                     Added
//	workqueue_depth                          Stats: Ready + Dirty
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
	// Dispatched calls, except for canceled keys.
	Added func(key K)

	// Dispatched reports that a worker got a key, and how long the key was ready. Delays and the previous attempt do not count.
	Dispatched func(key K, waited time.Duration)

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

// Interface is the plain queue: the methods that a worker loop needs. Its method set equals that of client-go's
// TypedInterface.
type Interface[K comparable] interface {
	Add(key K)
	Len() int
	Get() (key K, shutdown bool)
	Done(key K)
	ShutDown()
	ShutDownWithDrain()
	ShuttingDown() bool
}

// DelayingInterface is an [Interface] that can add a key later. Its method set equals that of client-go's
// TypedDelayingInterface.
type DelayingInterface[K comparable] interface {
	Interface[K]
	AddAfter(key K, d time.Duration)
}

// RateLimitingInterface is a [DelayingInterface] that can add a key after a backoff. Its method set equals that of client-go's
// TypedRateLimitingInterface.
type RateLimitingInterface[K comparable] interface {
	DelayingInterface[K]
	AddRateLimited(key K)
	Forget(key K)
	NumRequeues(key K) int
}
