package events

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Config is the configuration of a [Recorder]. Its zero value is ready to use.
type Config struct {
	// Size is how many events are held for [Recorder.Events]. Defaults to 256; a negative number holds none, and so
	// merges none.
	Size int

	// Burst and Refill limit what is recorded about one object: Burst new events at once, and one more in every Refill. What
	// comes on top is dropped. Repeats have a limit of their own, of the same size, for the sink alone: on top of it they
	// are counted, and not told. Burst defaults to 25, Refill to a minute; a negative Burst or Refill is no limit.
	Burst  int
	Refill time.Duration

	// Objects is how many objects are watched for floods at once. An object that has been quiet for Burst times Refill is
	// forgotten; above Objects the one that was quiet for longest makes room, and begins with a new Burst when it comes
	// back. Defaults to 4096; it must not be negative.
	Objects int

	// Sink gets the event of each call of Normal and Warning within the limits, also of a repeat, whose Count is above 1. It
	// is called without locks, by the goroutine that records, which waits for it: it has to be fast. [SlogSink] makes one
	// that logs, [Tee] makes one of several; [Queue.Put] is one for sinks that take their time. Nil is none.
	Sink func(Event)
}

// withDefaults returns c with every zero value replaced.
func (c Config) withDefaults() Config {
	c.Size = max(cmp.Or(c.Size, 256), 0)
	c.Burst = max(cmp.Or(c.Burst, 25), -1)
	c.Refill = max(cmp.Or(c.Refill, time.Minute), -1)
	c.Objects = cmp.Or(c.Objects, 4096)
	if c.Sink == nil {
		c.Sink = func(Event) {}
	}
	return c
}

// validate returns an error that names each field that is out of its bounds.
func (c Config) validate() error { return notNegative("Config.Objects", c.Objects) }

// QueueConfig is the configuration of a [Queue]. Its zero value is ready to use.
type QueueConfig struct {
	// Size is how many events may wait. When one more comes, the oldest is dropped. Defaults to 1000.
	Size int

	// Backoff is how often an event is delivered, and how long to wait in between, while the sink returns errors. Its zero
	// value stands for 5 attempts, after 1, 2, 4 and 8 seconds, and up to half as much again. With Steps 0 it is tried until
	// the queue stops, and all others wait.
	Backoff wait.Backoff

	// DrainTimeout is the longest time for which a Run that is told to stop goes on delivering what waits. Then the context
	// of the sink ends, and what is left waits for the next Run. Defaults to 5 s.
	DrainTimeout time.Duration

	// Logger gets a warning for each event that could not be delivered, and for those that a drain has left. Defaults to
	// slog.Default().
	Logger *slog.Logger

	_ [0]func()
}

// withDefaults returns c with every zero value replaced.
func (c QueueConfig) withDefaults() QueueConfig {
	c.Size = cmp.Or(c.Size, 1000)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Backoff.IsZero() {
		c.Backoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 5}
	}
	return c
}

func (c QueueConfig) validate() error {
	errs := []error{notNegative("QueueConfig.Size", c.Size), notNegative("QueueConfig.DrainTimeout", c.DrainTimeout)}
	if !c.Backoff.IsZero() && c.Backoff.Duration <= 0 {
		// The sink would be asked again and again without a pause.
		errs = append(errs, fmt.Errorf("QueueConfig.Backoff.Duration is %v, must be positive if another field of QueueConfig.Backoff is set",
			c.Backoff.Duration))
	}
	return errors.Join(errs...)
}

// StoreConfig is the configuration of a [StoreSink]. Its zero value is ready to use.
type StoreConfig struct {
	// Max is how many events the store holds at most. When it would hold more, the oldest tenth is deleted. Each further
	// process that writes to the same store adds a tenth to the bound. Defaults to 1000.
	Max int

	// TTL is how long an event stays after it happened for the last time. Who deletes it is a write, at most a tenth of TTL
	// later, if there is one; or a call of Sweep. Defaults to an hour.
	TTL time.Duration

	_ [0]func()
}

// withDefaults returns c with every zero value replaced.
func (c StoreConfig) withDefaults() StoreConfig {
	c.Max = cmp.Or(c.Max, 1000)
	c.TTL = cmp.Or(c.TTL, time.Hour)
	return c
}

func (c StoreConfig) validate() error {
	return errors.Join(notNegative("StoreConfig.Max", c.Max), notNegative("StoreConfig.TTL", c.TTL))
}

func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}
