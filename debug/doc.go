// Package debug serves a live page about a program: its queues, its caches, its election, and everything that is known about one key.
//
// The page answers three questions: what the program is doing, why a key is not done, and who leads. It needs no JavaScript, and loads
// nothing from other servers.
//
// # Usage
//
//	page, err := debug.New(m, debug.Config{}) // m is the *manager.Manager
//	...
//	err = m.Add(manager.At(manager.Outer, page)) // optional: samples the depth of the queues while the page is closed
//	http.Handle("/debug/", http.StripPrefix("/debug", page))
//
// A [Handler] works under any prefix, because all its links are relative. The paths, without the prefix:
//
//	/                       the overview: parts, election, slots, queues, informers, events, feature gates
//	/queue?name=Q           the keys of the queue of controller Q, with &state=S, &q=TEXT, &error=ID, and &page=N
//	/confirm?queue=Q        the question before an action on many keys, which &action=A names
//	/find?key=K             the queues and the caches that have this key
//	/informer?name=S        the keys of the cache of the informer S, with &q=TEXT, and &page=N
//	/key?queue=Q&key=K      one key: why it is not done, its object, its events, its owner, and its children
//	/key?informer=S&key=K   an object in the cache of the informer S, whose key is in no queue
//	/healthz, /readyz       for probes, in the form of Kubernetes; with ?verbose, they list all parts to clients that may see the page
//
// With format=json, a page returns the same as JSON. The package's README describes the fields. A link to a key of more than 1,000 bytes has
// &id=DIGEST instead of the key.
//
// # Security
//
// The page shows the data of the program. With Config.Actions, it can also change the program. So:
//
//   - Without Config.Guard, the page serves only requests that come from this machine and name this machine as the host: the address of
//     the client and the name in the URL are a loopback address or "localhost". Such a page can be reached through an SSH tunnel, or
//     through kubectl port-forward. A proxy on the same machine that keeps the name of the host is refused.
//   - With Config.Guard, the guard decides about every request, wherever it comes from.
//   - The probes are served to every client. A client that may not see the page learns only whether the check has passed. The names of the
//     parts, and the reasons, go to clients that may see the page.
//
// Config.Redact hides the content of objects. Errors, reasons, and events are shown as they are.
//
// # Guarantees
//
//  1. A page holds the lock of a queue for at most 128 keys at a time, however many keys the queue has.
//  2. A page that is not open costs nothing, except for the samples of [Handler.Run].
//  3. The content of keys, objects, errors, and names is escaped. The Content-Security-Policy allows only the style sheet and the
//     script of the page, and no inline code.
//  4. An action is a POST with the token of the page, and needs Config.Actions. A browser must not say that it comes from another site.
//     Any other request changes nothing.
//  5. A page works without JavaScript, and then reloads itself.
//  6. The JSON has the same content as the page. Fields are added, and neither renamed nor removed.
package debug
