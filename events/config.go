package events

import "cmp"

// Config is the configuration of a [Recorder]. Its zero value is ready to use; there is no invalid one.
type Config struct {
	// Size is how many events are held for [Recorder.Events]. Defaults to 256; a negative number holds none, and so
	// merges none.
	Size int

	// Sink gets the event of every call of Normal and Warning, also of a repeat, whose Count is above 1. It is called
	// without locks, by the goroutine that records, which waits for it: it has to be fast. [SlogSink] makes one that
	// logs. Nil is none.
	Sink func(Event)
}

// withDefaults returns c with every zero value replaced.
func (c Config) withDefaults() Config {
	c.Size = max(cmp.Or(c.Size, 256), 0)
	if c.Sink == nil {
		c.Sink = func(Event) {}
	}
	return c
}
