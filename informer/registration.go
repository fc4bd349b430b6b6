package informer

import (
	"context"
	"fmt"
)

// Registration stands for a handler that was added to an informer: it removes the handler, and tells how far the handler
// is. [Informer.AddHandler] returns it. The zero value is not usable. It is a [Syncer].
//
// Several goroutines may call its methods concurrently.
type Registration struct {
	name   string
	synced <-chan struct{}
	remove func() (done <-chan struct{})
	idle   func(ctx context.Context) error

	listener any // the *listener; nil for a handler of a Group
}

// Name returns the name of the informer and the number of the handler, counted from 1 as they were added.
func (r *Registration) Name() string { return r.name }

// Remove takes the handler from the informer. What waits for the handler is forgotten, and no callback of it is called any
// more, but one that is being called by now. Remove waits for nobody, so it may be called anywhere, also by a callback of the
// handler itself, which is the last one then. Removing twice does no harm.
//
// The channel is closed when no callback of the handler runs, nor ever will. Who takes away what the callbacks use waits for
// that:
//
//	<-reg.Remove()
//
// A callback of the handler itself must not: it would wait for its own return.
func (r *Registration) Remove() (done <-chan struct{}) { return r.remove() }

// Synced returns a channel that is closed when the handler's OnAdd has returned for every object that the cache held when
// the handler joined. Objects that were gone before their turn came are not waited for. It is never closed if the handler
// is removed, or Run ends, before.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// HasSynced reports whether Synced is closed.
func (r *Registration) HasSynced() bool { return isClosed(r.synced) }

// WaitIdle waits until the handler has been told of everything that the cache holds when WaitIdle is called: each callback
// for it has returned. The handler must have joined for that, so WaitIdle also waits for the first list. Changes that are
// applied later do not delay it.
//
// WaitIdle returns an error that wraps the cause of ctx when ctx ends first. It returns an error that wraps [ErrEnded] when
// the handler is removed first, or Run of the informer ends. A callback of the handler must not call WaitIdle: it would
// wait for its own return.
func (r *Registration) WaitIdle(ctx context.Context) error {
	if err := r.idle(ctx); err != nil {
		return fmt.Errorf("informer: wait for %s to be idle: %w", r.name, err)
	}
	return nil
}
