// Package controller has the loop that makes the world equal to what is desired. Package manager starts and stops such loops
// in the right order.
//
// A [Controller] has a queue of keys and calls a reconcile function for each of them. Keys come from informers
// ([For], [Owns], [Watches]), and from whoever else calls [Controller.Add]. The function is told a key and nothing else: not what happened,
// or how often. It reads what is desired and what is there, and changes what differs. So an event that was missed, repeated,
// merged or late never changes the result. [Outcome] says what follows from what the function returns, and [Controller.Run] how a
// controller ends.
//
// # Usage
//
//	apps, err := informer.New(source, keyOf, informer.Config{Name: "apps"})
//
//	c, err := controller.New("apps", func(ctx context.Context, key string) (controller.Result, error) {
//		app, ok := apps.Get(key)
//		if !ok {
//			return controller.Result{}, remove(ctx, key)
//		}
//		return controller.Result{}, apply(ctx, app)
//	}, controller.Config[string]{Workers: 4}, controller.For(apps))
//
//	m, err := manager.New(manager.Config{}, apps, c)
//	err = m.Run(ctx)
//
// # Guarantees
//
//  1. No key is reconciled twice at once. Different keys are, up to Config.Workers.
//  2. After each Add of a key a reconcile of it begins, in the Run that is under way or in the next. So a key that is added
//     while it is reconciled comes back. Adds may be merged.
//  3. No reconcile begins before the sources ([Controller.Sources]) hold their first list,
//     and what they hold has been mapped.
//  4. Of a change both the old and the new object are mapped; of a deletion the last object known. An event adds no key
//     twice. A change that could not be mapped is mapped again until it is, in the next Run if need be, and no state that
//     the object takes on meanwhile is left out, up to 100 of them. What is no news, because it was there when the Run
//     began, or a resync tells it again, waits behind what is news.
//  5. A key that failed, panicked or timed out is tried again until it succeeds or is parked. The number
//     of the attempt, when the first one failed, and why the key was added are in its context ([FromContext]), and in what
//     is logged of it ([Logger]). One key does not delay others, except by the worker that it has; a Goexit costs no worker.
//  6. When Run returns, its goroutines have ended, no Reconcile and no mapper runs, and its handlers are removed.
//  7. What a Run did not do, or would have tried again, is done at once by the next Run of the same controller, beside
//     all that is present. What was added between the two is done too, and attempts, budgets and parked keys are as they
//     were. Not so what was deleted between them: it is not reported, as it is not after a restart of the process.
//  8. A key that is paused, or whose expectations are not met, is not reconciled, and it is not lost: it is held, and comes
//     back when it is resumed, or by the event that meets its expectations, or when these expire. Nobody polls. Nor is a key
//     reconciled before each source of a kind to which its last reconcile has written shows the writes, or 10 s have passed.
//  9. A key whose reconcile was refused by a gate (package retry/gate) holds up no worker, and keeps its place there.
//  10. When [Controller.WaitReconciled] returns nil, a reconcile of the key has succeeded that began when the caches had seen
//     the version. When [Controller.WaitIdle] returns nil, everything that the watched caches held when it was called has
//     been mapped, and after that there was a moment at which nothing was ready, in flight or held.
//  11. A reconcile begins only while the leadership holds that it belongs to, that of Run or of a slot. The controller asks
//     the clock ([leaderelect.Leadership.Err]) right before each one. So a process that was suspended begins none after its
//     deadline, even if no timer has fired yet. When a leadership is lost, the contexts of its reconciles end before that
//     of Run. A suspend after the check cannot be seen: only the term, checked by the receiver, stops such a write.
//  12. With Config.Resync, each key that a watch knows, and each parked key, is added once in every period of a Run, at a random
//     moment that is the same in all periods. When cannot cancel that. It is no news: it waits behind news, and supersedes no
//     reconcile. A parked key gets one attempt; it is parked again if that fails.
//
// # Testing
//
// Everything works in a bubble of testing/synctest. [Controller.Connect] attaches the watches without a Run, [Controller.Ready]
// lists the ready keys, and [Controller.Step] reconciles the one that the test chooses, in its own goroutine. With [informer.Steps] the test also decides how far each cache
// is behind its source. Outside of a bubble [Controller.WaitReconciled] and [Controller.WaitIdle] make polling needless.
package controller
