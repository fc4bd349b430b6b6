package reconcile

import (
	"context"
	"math"
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

// WritesKey is the key under which a context has its [WriteListener].
type WritesKey struct{}

// Write is an accepted write.
type Write struct {
	Clock   Clock
	Object  string // the key of the object
	Before  uint64 // the version that was replaced: zero for a creation, or Unknown
	Version uint64 // the new version. It is Before if the write has changed nothing
}

// Unknown is the Before of a write whose replaced version nobody can tell.
const Unknown = math.MaxUint64

// WriteListener receives the writes under its context. It may be called by several goroutines concurrently. The one in the context of a
// reconcile is the attempt of package controller.
type WriteListener interface {
	// Begin is called before a write, so before its event can arrive, and End after it, with the zero Write if it was not accepted.
	Begin(c Clock)
	End(c Clock, w Write)
}

// BeginWrite reports to the listener of ctx, if there is one, that a write begins. If it returns a listener, call End of it.
func BeginWrite(ctx context.Context, c Clock) WriteListener {
	l, ok := ctx.Value(WritesKey{}).(WriteListener)
	if !ok {
		return nil
	}
	l.Begin(c)
	return l
}

// ReportWrite reports a write to the listener of ctx, if there is one, without naming its object.
func ReportWrite(ctx context.Context, kind string, db any, version uint64) {
	c := Clock{kind, db}
	if l := BeginWrite(ctx, c); l != nil {
		l.End(c, Write{Clock: c, Before: Unknown, Version: version})
	}
}

// SourceAs returns the first of a source, the source that it was made from, and so on, that is an I.
func SourceAs[I any](source any) (found I, ok bool) {
	for {
		if found, ok = source.(I); ok {
			return found, true
		}
		made, of := source.(interface{ Source() any })
		if !of {
			return found, false
		}
		source = made.Source()
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
