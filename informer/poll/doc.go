// Package poll turns anything that can only be listed into a source: an API without a watch, a query, the state of the world. It lists at
// intervals, and finds changes and deletions by comparison. For a directory, use package files.
//
// # Usage
//
//	source, err := poll.New(api.ListSites, func(s Site) string { return s.Name }, poll.Config[Site]{Interval: 10 * time.Second})
//	sites, err := informer.New(source, func(s Site) string { return s.Name }, informer.Config{Name: "sites"})
//	...
//	source.Nudge() // something has changed: poll now
//
// A list function must be fast and cheap enough for the interval. If it can tell that nothing has changed, it returns [ErrUnchanged]. Package
// httplist makes one for an API that is read over HTTP. If a database can report its changes, use a source with a real watch: see package
// store.
//
// A poll shows states, not changes. A change that is undone before the next poll is never seen. A program that writes to the source, and must
// not act again on the state before its write, uses package expectations: Versions with Config.Version, and Values without.
//
// There is no constructor for "the changes since a version". In most databases, such a query selects by an updated_at or a sequence, and
// misses each transaction that commits after one with a higher number, and each deletion. If the changes of a source do have numbers in the
// order of commits, and deletions among them, implement [informer.ListWatcher]: its Watch yields the changes after a number.
//
// # Guarantees
//
//  1. A poll that fails changes nothing. Each watch yields the error, and goes on. The next poll happens at its usual time, or later, if
//     the error requests that by [retry.After]. So an error never leads to a deletion, and [Source.Nudge] works during an outage. A list
//     with two objects under one key counts as a failed poll.
//  2. A bad object affects no other object. If [Config].Valid returns an error for an object, or Valid or Equal panics, the object is
//     unread: it keeps its last good state, if it has one, and never looks deleted. See [informer.Informer.Unread]. So are the objects that
//     an [Incomplete] list lacks. The deletion of a bad object is reported as usual.
//  3. Polls do not overlap, and all watchers share them. A Source starts no goroutine: it polls only in List and while it is
//     watched.
//  4. By default, a Source counts its own versions, one for each change that it finds, and they mean nothing to another Source. With
//     Config.Version, a cache at a version shows every change up to it. The changes of one poll are in the order of the list, followed by
//     the deletions in the order in which the keys first appeared. A watcher that misses the changes of two polls gets
//     [informer.ErrExpired]. With Config.Version, a watch may repeat changes that a list has already shown.
//  5. After a poll without changes, watchers get an [informer.Bookmark]. So an informer whose polls fail becomes stale: see
//     [informer.Informer.Stale]. A list that is slow but succeeds does not make it stale: see [Source.BookmarkPeriod].
//  6. A nudge is never lost: each one is followed by a poll that begins after it, as soon as there is a watcher or a List. If the context of
//     that poll ends first, another watcher polls.
package poll
