// Package informer mirrors a source into a cache, and calls handlers for changes. It is client-go's reflector and shared informer for any
// source, with static types throughout.
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
// A source is a [ListWatcher], and may be a [Pager], an [Equaler], a [Bookmarker], or a [Versioner]. Package poll turns anything that can only be listed
// into a source. A manager runs the informers that its controllers use, each once. To share an informer, share the variable. If the cache
// is behind by 256 events, the source waits for it. Nothing waits for a handler, unless [Handler].Inline is set. The pending changes of a
// handler are merged by key: at most one for each object that was reported or that exists, unless [Handler].EveryEvent is set.
//
// # Guarantees
//
// The cache, for a source that keeps the contract of these interfaces:
//
//  1. The cache changes before any handler is called: a handler may be behind it, never ahead.
//  2. A whole list is in the cache before any handler is called for it. A list that fails halfway changes nothing.
//  3. Every change up to [Informer.Version] is in the cache. It never decreases, except after [Informer.Reset]. If an index
//     function panics, Version stays below the change, and the informer lists again after a backoff until it can be applied.
//  4. A list or an event that is older than the cache is rejected, except after Reset.
//  5. The next list reveals an object that was deleted while no watch was open. Handlers get one deletion, with FinalStateUnknown. This
//     does not hold across a restart of the process: see package owner.
//
// Each handler, independently of the others:
//
//  6. One goroutine calls it, one call at a time: its own, or, with Inline, that of Run. For each key: OnAdd, any number of OnUpdate and OnResync, OnDelete, and then
//     OnAdd again. The old state of an update is the new state of the previous call.
//  7. It may join at any time. It is called for exactly the objects that the cache holds at that moment, and for every later change. It
//     joins after the first list, and before any change that is made after AddHandler has returned.
//  8. The last call for a key is for its current state. States in between may be skipped, but with EveryEvent or Inline none that the
//     source reported. A handler never gets an object that does not pass its Filter.
//  9. A deletion and a creation under one key are OnDelete and OnAdd. If both happened while no watch was open, they are an update.
//  10. An update may repeat the same state: in a resync, when the source repeats an event, and after a list (see [Equaler]).
//  11. A callback that panics is reported to Config.OnError, with its stack, and is not repeated.
//  12. There is no order between calls of different handlers. But one with Inline is called for a change after Version was raised, before the
//     functions of OnVersion, and before the next change is applied; WaitForVersion returns after that. The cache waits for it.
//  13. [Registration.Remove] never waits, and its channel is closed when no callback is running. A callback may remove its own handler, and
//     is then the last one.
//
// The source:
//
//  14. When a watch ends, the informer resumes it without a list: at once, or after a backoff if the watch failed, or ended within a
//     second without a new version. A panic or a runtime.Goexit of the source counts as an error.
//  15. After [ErrExpired] the informer lists: at once the first time. After that, two lists are apart by at least a delay of the backoff,
//     which grows until a new event arrives.
//  16. No error ends Run; a runtime.Goexit of a function that Run calls does. All errors are reported to Config.OnError, except the end of the context, and an ErrExpired after which the
//     informer lists at once.
//
// An informer that is divided into slots ([Divide], [Informer.Share]):
//
//  17. When [Informer.Hold] has returned nil, the cache has every object of the slot, as it was in a list that began after the call or later, until
//     [Informer.Drop]. That list has only the slots that join, so until Version has reached it, they are ahead of the other slots: events that
//     are older are not reported for them. When no list, drop, or event is pending, the cache has exactly the objects of the slots that are held.
//  18. An object that leaves the cache because its slot was dropped is not deleted: a handler gets OnDrop. After that, it gets nothing
//     of the object until OnAdd, when its slot is held again, or when it has moved to a slot that is held. If a handler is behind, and the object
//     comes back and is deleted before its turn, it gets OnDelete.
//  19. An object that moves from a slot that is held to one that is not is deleted. The handler gets its last state in the former slot, with
//     FinalStateUnknown, so that what it mattered to there is known. Between two slots that are held, a move is an update, unless
//     the object moves on before the list by which the second slot joins: then it is deleted, and comes back with the next slot.
//  20. While its slot stays held, an object in the cache never goes back to an older state.
//  21. After a Hold that returns an error, the slots are held that were held before, and none of them loses an object or an event because of it.
//
// # Testing
//
// [Informer.Steps] drives an informer step by step. Package informertest has a source that fails on demand. In a testing/synctest bubble,
// nothing needs real time, and Run leaves nothing behind.
package informer
