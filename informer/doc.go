// Package informer mirrors a source into a cache, and calls handlers for changes. It is client-go's reflector and shared
// informer for any source, typed from end to end.
//
// # Usage
//
//	sites, err := informer.New(src, func(s Site) string { return s.Name }, informer.Config{Name: "sites"})
//	_, err = sites.AddHandler(informer.Handler[string, Site]{
//		OnAdd:    func(s Site, inInitialList bool) { ... },
//		OnUpdate: func(old, new Site) { ... },
//		OnDelete: func(d cache.Tombstone[string, Site]) { ... },
//	})
//	go sites.Run(ctx)
//	err = informer.WaitForSync(ctx, sites)
//	site, ok := sites.Get("ulm")
//
// A source is a [ListWatcher]: it lists all objects at a version, and reports the changes after that. Package poll makes a
// source of anything that can only be listed. A source may also be a [Pager], an [Equaler], or a [Bookmarker]. The guarantees
// below hold for a source that keeps the contract of these interfaces. Its methods must return when their context ends.
//
// A manager runs the informers that its controllers use, each once. To share an informer, share the variable.
//
// # Data flow
//
//	              reflector                         Run
//	+--------+  list, watch   +-----------+  apply   +---------+
//	| source | -------------> |   feed    | -------> | Indexer | <------ Get, indexes
//	+--------+                +-----------+    |     +---------+
//	                     at most 256 events,   |
//	                     in order              | tell
//	                                           +-----> backlog ------> callbacks of handler 1
//	                                           +-----> backlog ------> callbacks of handler 2
//	                                        merged by key           a goroutine each
//
// If the cache is behind by 256 events, the source waits for it. Nothing waits for a handler: its pending changes are merged
// by key. So they take no more memory than the objects that the handler knows and those that exist, unless
// [Handler].EveryEvent is set. The objects that exist when a handler joins wait for it in a snapshot of the cache.
//
// # Guarantees
//
// The cache:
//
//  1. The cache changes before any handler is called. A handler may be behind the cache, never ahead of it.
//  2. A whole list is in the cache before any handler is called for one of its objects. A list that fails midway changes
//     nothing.
//  3. Every change of the source up to Version is in the cache. Version never decreases, except after [Informer.Reset]. If
//     an object cannot be applied, because an index function panics, the error is reported, and Version stays below it until
//     it can be applied: the informer lists again after a backoff, as often as necessary.
//  4. A list or an event that is older than the cache is refused. The cache never goes back in time, except by
//     [Informer.Reset], for a source that was restored from a backup.
//  5. If an object was deleted while no watch was open, the next list reveals it, and handlers get one deletion with
//     FinalStateUnknown. This needs the cache: after a restart of the process, an informer does not know which objects
//     existed before, and reports no such deletion. See package owner for solutions.
//
// Each handler, independently of the others:
//
//  6. One goroutine calls the handler, one call at a time. For each key, the calls are OnAdd, any number of OnUpdate,
//     OnDelete, and then OnAdd again. The old state of an update is the new state of the previous call.
//  7. A handler may join at any time, and delays nothing. It is called for exactly the objects that the cache held when it
//     joined, and for every change after that: none is missed or repeated. It joins before any change is applied that is made
//     after AddHandler has returned, but not before the cache holds the first list.
//  8. A slow or blocked handler delays neither the cache nor another handler. For each key, its last call is for the current
//     state. Intermediate states may be skipped, and so may objects that were created and deleted in between. With
//     EveryEvent, no event of the source is skipped, and pending events have no bound. A handler never gets an object that
//     does not pass its Filter, not even as the last state of a deleted object.
//  9. A deletion and a creation under the same key are reported as OnDelete and OnAdd, unless the source did not report them:
//     if both happened while no watch was open, they are an update.
//  10. An update may repeat the same state: in a resync, when the source repeats itself, and after a list whose objects
//     cannot be compared: see [Equaler].
//  11. A callback that panics is reported to Config.OnError, with its stack, and counts as done.
//  12. There is no order between the calls of different handlers.
//  13. A handler may be removed at any time, also by its own callbacks. Removal never waits. If a callback removes its
//     handler, it is the last callback. [Registration.Remove] returns a channel that is closed when no callback runs anymore.
//     [Registration.WaitIdle] waits until a handler has been called for everything in the cache.
//
// The source:
//
//  14. When a watch ends, the informer watches again from the last version, without a list: at once, or after a backoff if the
//     watch failed or yielded nothing useful. A panic of the source is an error, and so is a runtime.Goexit.
//  15. After [ErrExpired] the informer lists: at once the first time, or if the last list is older than the first delay of the
//     backoff. If it expires again before a new event has arrived, lists back off like errors.
//  16. No error ends Run. Every error is reported to Config.OnError, except the end of the context, and an ErrExpired that
//     leads to a list at once.
//
// # Shutdown
//
// [Informer.Run] returns nil when its context ends, after the reflector and the handlers have ended. By then the source and
// all running callbacks have returned, and no callback runs after that. Pending changes are dropped: handlers consume states,
// and whoever starts again gets the current ones. The same holds for a removed handler when the channel of
// [Registration.Remove] is closed. The cache can still be read. An informer runs once.
//
// # Testing
//
// [Informer.Steps] drives an informer step by step, instead of Run. A test reads one thing from the source, applies one to the
// cache, and makes one call of one handler, in any order.
//
// Package informertest has a source whose failures the test commands. In a testing/synctest bubble, an informer needs no real
// time: backoff, resync, and polls wait for timers, everything else for channels. When synctest.Wait returns, all handlers
// have been called for all events. When Run has returned, it leaves nothing in the bubble. Jitter comes from the Rand of
// Config.Backoff.
package informer
