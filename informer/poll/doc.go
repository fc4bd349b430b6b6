// Package poll turns anything that can only be listed into a source: an API without a watch, a directory, a query, the state of the world.
// It lists at intervals, and finds changes and deletions by comparison.
//
// # Usage
//
//	source, err := poll.New(api.ListSites, func(s Site) string { return s.Name }, poll.Config[Site]{Interval: 10 * time.Second})
//	sites, err := informer.New(source, func(s Site) string { return s.Name }, informer.Config{Name: "sites"})
//	...
//	source.Nudge() // something has changed: poll now
//
// A list function must be fast and cheap enough for the interval. If a database can report its changes, use a source with a real watch: see
// package store.
//
// # Guarantees
//
//  1. A poll that fails changes nothing. Each watch yields the error, and goes on. The next poll happens at its usual time. So an error never
//     leads to a deletion, and [Source.Nudge] works during an outage. A list with two objects under one key counts as a failed poll.
//  2. A bad object affects no other object. If [Config].Valid returns an error for an object, or Valid or Equal panics, the object keeps
//     its last good state. If it has none, it does not exist yet. Each poll reports its bad objects with their keys. The deletion of a bad
//     object is reported as usual.
//  3. Polls do not overlap, and all watchers share them. A Source starts no goroutine: it polls only in List and while it is
//     watched.
//  4. By default, a Source counts its own versions, one for each change that it finds, and they mean nothing to another Source. With
//     Config.Version, a cache at a version shows every change up to it. The changes of one poll are in the order of the list, followed by
//     the deletions in the order in which the keys first appeared. A watcher that misses the changes of two polls gets
//     [informer.ErrExpired]. With Config.Version, a watch may repeat changes that a list has already shown.
//  5. After a poll without changes, watchers get an [informer.Bookmark]. So an informer whose polls fail becomes stale: see
//     [informer.Informer.Stale].
//  6. A nudge is never lost: each one is followed by a poll that begins after it, as soon as there is a watcher or a List. If the context of
//     that poll ends first, another watcher polls.
package poll
