package informer

// Registration is a handler that was added to an informer. It is a [Syncer]. Its methods may be called by several
// goroutines at once.
type Registration struct {
	name   string
	synced <-chan struct{}
	remove func()
}

// Name returns the name of the informer and the number of the handler, counted from 1 as they were added.
func (r *Registration) Name() string { return r.name }

// Remove takes the handler from the informer. What waits for the handler is forgotten. Remove returns when no callback of
// the handler runs, and none will run after. Removing twice does no harm.
//
// A callback must not remove its own handler: Remove would wait for the callback, and the callback for Remove, for ever.
// Let it start a goroutine that does, or end the work elsewhere. It may remove other handlers, unless theirs remove its
// own at the same time.
func (r *Registration) Remove() { r.remove() }

// Synced returns a channel that is closed when the handler's OnAdd has returned for every object that the cache held when
// the handler joined. Objects that were gone before their turn came are not waited for. It is never closed if the handler
// is removed, or Run ends, before.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// HasSynced reports whether Synced is closed.
func (r *Registration) HasSynced() bool { return isClosed(r.synced) }
