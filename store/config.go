package store

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"

	"github.com/setpoint-go/setpoint/informer"
)

// Config is the configuration of a [Store] of values of type T. Its zero value is ready to use.
type Config[T any] struct {
	// Encode and Decode are the codec of the values: what they make of each other's results is the same value, and the same
	// value always has the same bytes. They are called by several goroutines at once, and keep nothing of what they get.
	// Set both or none. They default to encoding/json, which refuses strings that are not UTF-8; then T has to be a type
	// that JSON keeps whole.
	//
	// A [Memory] keeps values of plain data as they are when neither is set.
	Encode func(T) ([]byte, error)
	Decode func([]byte) (T, error)

	// NewUID returns a UID that it has never returned before. It is called for every Create, without locks, by several
	// goroutines at once. Defaults to 130 random bits as text. Set it to have the same UIDs in every run of a test.
	NewUID func() string

	// Hooks are called when something happens that no caller is told of.
	Hooks Hooks

	// Logger gets what no caller is told of. Defaults to slog.Default().
	Logger *slog.Logger
}

// Hooks are functions that a [Store] calls, on the goroutine of whoever reads, without locks. They must be quick.
type Hooks struct {
	// Undecodable is called when a list or a watch has met a record that does not decode: once for each version.
	Undecodable func(u Undecodable)
}

// Undecodable is a record that does not decode.
type Undecodable struct {
	Kind, Key string
	Version   informer.Version
	Err       error
}

// Stats is what a [Store] has to tell about its records.
type Stats struct {
	// Undecodable are the records that lists and watches have met and that did not decode, in order of key. One that was
	// repaired or deleted since is no longer there once a list or a watch of this Store has seen so.
	Undecodable []Undecodable
}

// withDefaults returns c with every zero value replaced, but for the codec.
func (c Config[T]) withDefaults() Config[T] {
	if c.NewUID == nil {
		c.NewUID = rand.Text
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c *Config[T]) validate() error {
	switch {
	case c.Encode != nil && c.Decode == nil:
		return errors.New("Config.Encode is set without Config.Decode")
	case c.Encode == nil && c.Decode != nil:
		return errors.New("Config.Decode is set without Config.Encode")
	}
	return nil
}

// MemoryConfig is the configuration of a [Memory]. Its zero value is ready to use; there is no invalid one.
type MemoryConfig struct {
	// History is how many changes of each kind are kept for those who watch. A watch that falls back further, or
	// starts further back, ends with [ErrExpired]. Each kind has a history of its own, so that a busy kind does not
	// expire the watches of a quiet one. Ids of [Once] outlive a deletion for as long. Defaults to 4096; a negative number
	// keeps none.
	History int

	_ [0]func()
}

// withDefaults returns c with every zero value replaced.
func (c MemoryConfig) withDefaults() MemoryConfig {
	c.History = max(cmp.Or(c.History, 4096), 0)
	return c
}
