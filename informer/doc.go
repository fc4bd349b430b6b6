// Package informer mirrors a source into a cache and calls handlers for what changes: client-go's reflector and shared
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
// The source is a [ListWatcher]: what there is, at which version, and what changes from then on. [Poll] makes one of
// anything that can only be listed. A source may be a [Pager], whose list comes in pages, and an [Equaler], which knows when
// nothing has changed. What is said here about a source holds as long as it keeps to the contract of these; its methods must
// return when their context ends.
//
// # Data flow
//
//	              reflector                         Run
//	+--------+  list, watch   +-----------+  apply   +---------+
//	| source | -------------> |   feed    | -------> | Indexer | <------ Get, indexes
//	+--------+                +-----------+    |     +---------+
//	                     waits, in order,      |
//	                     256 at most           | tell
//	                                           +-----> backlog ------> callbacks of handler 1
//	                                           +-----> backlog ------> callbacks of handler 2
//	                                        waits, merged by key    a goroutine each
//
// The source waits for the cache, if that is behind by 256 events, and nothing waits for a handler. What has to wait for
// one is merged by key, so it takes no more room than the objects that it knows and those that exist, unless
// [Handler].EveryEvent is set. The objects that are there when it joins wait in a snapshot of the cache.
//
// # Guarantees
//
// The cache:
//
//  1. The cache is changed before any handler is told. A handler may be behind the cache, never ahead of it.
//  2. A list is in the cache as a whole before any handler is told of one of its objects. One that fails in the middle
//     changes nothing.
//  3. Version is true: every change of the source up to it is in the cache. It never goes down, but after
//     [Informer.Reset]. An object that cannot be applied, because an index function panics, is reported and keeps
//     Version below it until it can: the source is listed again after a backoff, again and again if need be.
//  4. A list, or an event, that is older than what was seen is refused: the cache never goes back in time, but by
//     [Informer.Reset], for a source that was restored from a backup.
//  5. The next list shows that an object was deleted while no watch was open, and its deletion is told once, with
//     FinalStateUnknown. This needs the cache: an informer that begins empty, such as after a restart of the process, does
//     not know what existed before, and tells of no such deletion. See package owner for what to do about that.
//
// The handlers, each for itself:
//
//  6. A handler is called by one goroutine, one call at a time. For each key the calls are OnAdd, OnUpdate any number of
//     times, OnDelete, and so on again. The old state of an update is the new state of the call before.
//  7. A handler may join at any time, and delays nobody by that. It is told of exactly what the cache held when it joined,
//     and of every change from then on: none is missed, none told twice. It joins before a change is applied that was
//     made after AddHandler had returned; but not before the cache holds the first list.
//  8. A slow or blocked handler delays neither the cache nor another handler. For each key it is told at last what is
//     true at last. States in between may be left out, and so may objects that came and went. With EveryEvent nothing
//     is left out that the source has told, and what waits has no bound. A handler is never given an object that does
//     not pass its Filter, not even as the last state of one that was deleted.
//  9. An object that was deleted and one that was created under its key are told as OnDelete and OnAdd, unless the
//     source itself did not tell: if both happened while nobody watched, it is an update.
//  10. The same state may be told twice as an update: in a resync, when the source repeats itself, and after a list if it
//     cannot be seen that nothing has changed: see [Equaler].
//  11. A callback that panics is reported to Config.OnError, with its stack, and counts as done.
//  12. Handlers know nothing of each other: between them there is no order.
//  13. A handler may be removed at any time, by anybody, also by its own callbacks, and that waits for nobody. A callback that
//     removes its handler is the last one. It can be seen when no callback runs any more: see [Registration.Remove].
//     [Registration.WaitIdle] waits until a handler has been told of everything that is in the cache.
//
// The source:
//
//  14. A watch that ends is taken up again from the last version, without a list: at once, or after a backoff if it
//     ended with an error or was of no use. A panic is an error, and so is a runtime.Goexit.
//  15. [ErrExpired] leads to a list, at once if the last one is not younger than the first delay of the backoff, or if it is
//     the first time; if it comes again before anything new has, lists back off like errors.
//  16. No error ends Run. Every error that is not the end of the context is reported to Config.OnError, but an ErrExpired
//     that leads to a list at once.
//
// # Shutdown
//
// [Informer.Run] returns nil when its context ends, after the reflector and the handlers have ended: the source has
// returned, and callbacks that were running too. No callback runs after that. What waits for a handler is forgotten,
// because a consumer of states has nothing to do for a state that nobody is interested in any more: whoever starts again
// is told of the present. The same holds when the channel of [Registration.Remove] is closed. The cache can still be read. An
// informer runs once.
//
// # Testing
//
// [Informer.Steps] drives an informer step by step, in the place of Run: a test reads one thing from the source, applies one to
// the cache, and makes one call of one handler, in any order.
//
// Package informertest has a source whose failures the test commands. In a testing/synctest bubble an informer needs no
// real time: backoff, resync and polls wait for timers, everything else for channels, and when synctest.Wait returns, all
// that has happened has been told. Nothing is left in the bubble when Run has returned. Jitter is drawn from the Rand of
// Config.Backoff.
package informer
