package events

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
)

// Config is the configuration of a [Recorder]. The zero value is ready for use.
type Config struct {
	// Name is what [Recorder.Name] returns. Defaults to "events".
	Name string

	// Size is the number of events that are held in memory for [Recorder.Events]. Defaults to 256. If it is negative, no event is held, so
	// none is merged.
	Size int

	// Burst and Refill limit the new events of each type about one object: Burst events at once, and one more per Refill. Further events are
	// dropped and counted. Repeats have separate limits of the same size. Above them, a repeat is counted, and not passed on at once: Sink
	// sees the count with the next repeat within the limit. Write and Store see it when the limit allows, when the event makes room for
	// another, or in the drain of Run. Burst defaults to 25 and Refill to a minute. If either is negative, there is no limit.
	Burst  int
	Refill time.Duration

	// Objects is the number of objects whose limits are kept. An object without events for Burst times Refill is forgotten. If
	// there are more than Objects, the one without events for the longest time is forgotten too, and starts with a new Burst
	// later. Defaults to 4096. It must not be negative.
	Objects int

	// Sink, if set, receives the event of each call of Normal and Warning within the limits, including repeats, whose Count is above 1. It
	// is called without locks by the goroutine that records, so it must be fast. [SlogSink] returns a Sink that logs.
	Sink func(Event)

	// Write, if set, receives the same events from [Recorder.Run], one after the other, and may be slow. If it returns an error, it is
	// called again with the same event according to Backoff, unless the error is one of retry.Permanent. Calls never overlap. If a stop
	// takes longer than DrainTimeout, the context of Write ends, and Write must return.
	Write func(ctx context.Context, e Event) error

	// Store, if set, keeps the same events as objects of kind "Event", so that other programs can list and watch them: see
	// [About]. Run writes them. The writes carry no fence, because an event stays true when the leader changes. An event that no store can
	// keep, because the reason or the key is not UTF-8 for example, fails at once.
	Store backend.Backend

	// Max is the largest number of events in Store. To stay below it, each sweep deletes all but the newest nine tenths of Max. Sweeps
	// come after each tenth of TTL, and after each tenth of Max new events. Each additional process that writes to the same database adds a
	// tenth to the bound. Defaults to 1000.
	Max int

	// TTL is the time for which an event stays in Store after its last call. It may stay up to a tenth longer. Defaults to an hour.
	TTL time.Duration

	// QueueSize is the number of events that may wait for Write, and also the number that may wait for Store. Beyond it, the oldest is
	// dropped and counted. The log says so once per flood. Defaults to 1000.
	QueueSize int

	// Backoff is the number of attempts to deliver an event while Write or Store returns errors, and the delays between them. Defaults to 5
	// attempts with delays of 1, 2, 4, and 8 seconds and 50% jitter. If another field is set, Duration must be positive. If Steps is 0 then,
	// an event is retried until Run stops, and all later events wait.
	Backoff wait.Backoff

	// DrainTimeout is the longest time for which Run delivers waiting events after its context has ended. Then the context of the
	// writes ends, and the rest waits for the next Run. Defaults to 5 s.
	DrainTimeout time.Duration

	// Logger receives a warning for each event that could not be delivered, for the events that a drain left behind, and each time that old
	// events could not be deleted from Store. It also receives the first Warning about an object that the limit drops, and the first event that
	// a full queue drops. Further ones are only counted, until no event waits, or there were no new warnings about the object for up to Burst
	// times Refill. Defaults to slog.Default().
	Logger *slog.Logger
}

// withDefaults returns c with every zero value replaced.
func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "events")
	c.Size = max(cmp.Or(c.Size, 256), 0)
	c.Burst = max(cmp.Or(c.Burst, 25), -1)
	c.Refill = max(cmp.Or(c.Refill, time.Minute), -1)
	c.Objects = cmp.Or(c.Objects, 4096)
	if c.Sink == nil {
		c.Sink = func(Event) {}
	}
	c.Max = cmp.Or(c.Max, 1000)
	c.TTL = cmp.Or(c.TTL, time.Hour)
	c.QueueSize = cmp.Or(c.QueueSize, 1000)
	if c.Backoff.IsZero() {
		c.Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 5}
	}
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// validate returns an error that names each field that is out of its bounds.
func (c Config) validate() error {
	errs := []error{
		notNegative("Config.Objects", c.Objects), notNegative("Config.Max", c.Max), notNegative("Config.TTL", c.TTL),
		notNegative("Config.QueueSize", c.QueueSize), notNegative("Config.DrainTimeout", c.DrainTimeout),
	}
	if !c.Backoff.IsZero() && c.Backoff.Duration <= 0 {
		// A failing sink would be called in a tight loop.
		errs = append(errs, fmt.Errorf("Config.Backoff.Duration is %v, must be positive if another field of Config.Backoff is set",
			c.Backoff.Duration))
	}
	return problems.Join(errs...)
}

func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}
