package store

import (
	"cmp"
	"crypto/rand"
)

// MemoryConfig is the configuration of a [Memory]. Its zero value is ready to use.
type MemoryConfig struct {
	// History is how many changes of each kind are kept for those who watch. A watch that falls back further, or
	// starts further back, ends with [ErrExpired]. Each kind has a history of its own, so that a busy kind does not
	// expire the watches of a quiet one. Defaults to 4096; a negative number keeps none.
	History int

	// Requests is how many of the last writes under [Once] are remembered, of all kinds together, each with what it
	// returned. Defaults to 4096; a negative number remembers none.
	Requests int

	// NewUID returns a UID that it has never returned before. It is called for every Create, without locks, by several
	// goroutines at once. Defaults to 130 random bits as text. Set it to have the same UIDs in every run of a test.
	NewUID func() string
}

// withDefaults returns c with every zero value replaced.
func (c MemoryConfig) withDefaults() MemoryConfig {
	c.History = max(cmp.Or(c.History, 4096), 0)
	c.Requests = max(cmp.Or(c.Requests, 4096), 0)
	if c.NewUID == nil {
		c.NewUID = rand.Text
	}
	return c
}
