package written

import (
	"context"
	"reflect"
)

// Clock says what a version counts. Versions of one Clock can be compared.
type Clock struct {
	Kind string
	DB   any // the database; nil if it is not known
}

// Is reports whether versions of c and d can be compared, as far as that is known: the kinds are the same, and so are the databases
// if both can be compared.
func (c Clock) Is(d Clock) bool {
	if c.Kind != d.Kind {
		return false
	}
	if c.DB == nil || d.DB == nil || !reflect.TypeOf(c.DB).Comparable() || !reflect.TypeOf(d.DB).Comparable() {
		return true
	}
	return c.DB == d.DB
}

// Key is the key under which a context has its [Listener].
type Key struct{}

// Listener hears of the writes under its context. It may be called by several goroutines concurrently.
type Listener interface {
	Wrote(c Clock, version uint64)
}

// Tell tells the listener of ctx, if there is one, that a write was accepted, and its version.
func Tell(ctx context.Context, kind string, db any, version uint64) {
	if l, ok := ctx.Value(Key{}).(Listener); ok {
		l.Wrote(Clock{kind, db}, version)
	}
}

// ClockOf returns the clock of a source of an informer. It returns false if there is none: the source is no store.
func ClockOf(source any) (Clock, bool) {
	for {
		switch s := source.(type) {
		case interface{ Clock() Clock }:
			return s.Clock(), true
		case interface{ Source() any }: // made of another source, whose versions it has
			source = s.Source()
		case interface{ Kind() string }:
			return Clock{Kind: s.Kind()}, true
		default:
			return Clock{}, false
		}
	}
}
