package database

import (
	"context"
	"fmt"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Handle is a backend that no fault hits: that of the user, of Always, and of Goal.
type Handle struct {
	*DB
	Actor  string
	NewUID func() string                                                               // makes the UID of an object
	Write  func(actor, kind, key string, next backend.Record) (written backend.Record) // nil if the handle only reads
}

// Get implements [backend.Backend].
func (h *Handle) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	return h.DB.Get(kind, key), nil
}

// List implements [backend.Backend].
func (h *Handle) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := context.Cause(ctx); err != nil {
			yield(backend.Page{}, err)
			return
		}
		yield(h.DB.List(h.Version(), kind, q), nil)
	}
}

// Watch implements [backend.Backend].
func (h *Handle) Watch(context.Context, string, backend.Query, informer.Version) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		yield(backend.Change{}, fmt.Errorf("simtest: %s does not watch", h.Actor))
	}
}

// Transact implements [backend.Backend].
func (h *Handle) Transact(
	ctx context.Context, kind, key string, _ []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return backend.Record{}, err
	}
	have := h.DB.Get(kind, key)
	next, err := decide(have)
	switch {
	case err != nil:
		return backend.Record{}, err
	case next == nil:
		return have, nil
	case h.Write == nil:
		return backend.Record{}, fmt.Errorf("simtest: %s only reads", h.Actor)
	}
	return h.Write(h.Actor, kind, key, *next), nil
}
