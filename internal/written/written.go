package written

import (
	"context"
	"reflect"
)

// Clock identifies the counter of a version. Versions of one Clock can be compared.
type Clock struct {
	Kind string
	DB   any // the database; nil if unknown
}

// Is reports whether versions of c and d are known to be comparable: the kinds are the same, and so are the databases if both can be
// compared.
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

// Listener receives the writes under its context. It may be called by several goroutines concurrently.
type Listener interface {
	Wrote(c Clock, version uint64)
}

// Tell reports the version of an accepted write to the listener of ctx, if there is one.
func Tell(ctx context.Context, kind string, db any, version uint64) {
	if l, ok := ctx.Value(Key{}).(Listener); ok {
		l.Wrote(Clock{kind, db}, version)
	}
}

// ClockOf returns the clock of a source of an informer. It returns false if there is none: the source is not a store.
func ClockOf(source any) (Clock, bool) {
	for {
		switch s := source.(type) {
		case interface{ Clock() Clock }:
			return s.Clock(), true
		case interface{ Source() any }: // made from another source, with the same versions
			source = s.Source()
		case interface{ Kind() string }:
			return Clock{Kind: s.Kind()}, true
		default:
			return Clock{}, false
		}
	}
}
