package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
)

// Config is the configuration of a [Recorder]. Its zero value is ready to use.
type Config struct {
	// Name is what [Recorder.Name] returns. Defaults to "events".
	Name string

	// Size is how many events are held for [Recorder.Events]. Defaults to 256; a negative number holds none, and so
	// merges none.
	Size int

	// Burst and Refill limit what is recorded about one object: Burst new events at once, and one more in every Refill. The
	// recorder drops and counts more. Repeats have a limit of their own, of the same size, for Sink, Write, and Store only: above
	// it they are counted, and not passed on. Burst defaults to 25, Refill to a minute; a negative Burst or Refill is no limit.
	Burst  int
	Refill time.Duration

	// Objects is how many objects are watched for floods at once. An object that has been quiet for Burst times Refill is
	// forgotten. Above Objects, the one that was quiet for longest makes room, and begins with a new Burst when it comes
	// back. Defaults to 4096; it must not be negative.
	Objects int

	// Sink gets the event of each call of Normal and Warning within the limits, also of a repeat, whose Count is above 1. The
	// goroutine that records calls it without locks and waits for it, so it has to be fast. [SlogSink] makes one that logs.
	// Nil is none.
	Sink func(Event)

	// Write gets the same events from [Recorder.Run], one after the other, and may take its time. If it returns an error, it is
	// called again with the same event, as Backoff says, unless the error is one of retry.Permanent. It is never called twice
	// at once. Its context ends when a stop takes longer than DrainTimeout; then it has to return. Nil is none.
	Write func(ctx context.Context, e Event) error

	// Store keeps the same events as objects of kind "Event", from Run too, so that others can list and watch them: see
	// [About]. The writes carry no fence, since what happened is true whoever leads. Nil is none.
	Store backend.Backend

	// Max is how many events Store holds at most. When it would hold more, the oldest tenth is deleted. Each further process that
	// writes to the same database adds a tenth to the bound. Defaults to 1000.
	Max int

	// TTL is how long an event stays in Store after it happened for the last time, and up to a tenth longer. Defaults to an hour.
	TTL time.Duration

	// QueueSize is how many events may wait for Write, and how many for Store. When one more comes, the oldest is dropped and
	// counted. Defaults to 1000.
	QueueSize int

	// Backoff is how often an event is delivered, and how long to wait in between, while Write or Store returns errors. Its zero
	// value stands for 5 attempts, after 1, 2, 4 and 8 seconds, and up to half as much again. With Steps 0 an event is tried
	// until Run stops, and all others wait.
	Backoff wait.Backoff

	// DrainTimeout is the longest time for which a Run that is told to stop keeps delivering queued events. Then the context of
	// the writes ends, and the rest stays in the queue for the next Run. Defaults to 5 s.
	DrainTimeout time.Duration

	// Logger gets a warning for each event that could not be delivered, and for those that a drain has left. Defaults to
	// slog.Default().
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
		// A sink that fails would be asked again and again without a pause.
		errs = append(errs, fmt.Errorf("Config.Backoff.Duration is %v, must be positive if another field of Config.Backoff is set",
			c.Backoff.Duration))
	}
	return errors.Join(errs...)
}

func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}
