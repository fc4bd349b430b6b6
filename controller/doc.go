// Package controller reconciles: for each key, it makes the actual state equal to the desired state, and again after each change.
// Package manager runs it.
//
// A [Controller] has a queue of keys and calls a reconcile function for each of them. Keys come from informers ([For], [Owns], [Watches])
// and from calls of [Controller.Add]. The function gets a key and no event. It reads the desired and the actual state, and resolves the
// differences. So a missed, repeated, merged, or late event never changes the result. [Outcome] lists the consequences of each result, and
// [Controller.Run] says how a controller stops.
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
//	m, err := manager.New(manager.Config{}, c) // which runs the informers of c too
//	err = m.Run(ctx)
//
// # Guarantees
//
//  1. A key is never reconciled twice concurrently; different keys are.
//  2. After each Add of a key, a reconcile of the key begins, in the current Run or in the next. So a key that is added during
//     its reconcile is reconciled again. Adds may be merged.
//  3. No reconcile of a Run begins before each informer ([Controller.Informers]) has its first list and the watches have tried to map all
//     objects in it.
//  4. An update maps both the old and the new object, a deletion the last object that the watch has seen and the
//     final one. An event adds no key twice. A mapping that failed is retried until it succeeds, also in the next Run, with each later
//     state of the object (up to 100). Initial lists and resyncs wait behind changes.
//  5. A key that failed, panicked, or timed out is retried until it succeeds or is parked. [FromContext] returns the attempt, the time of
//     the first failure, and the reasons for the adds; [Logger] logs them. A Goexit costs no worker. Its own writes to a store bring it back
//     no earlier ([Outcome]).
//  6. When Run returns, its goroutines have ended, no reconcile or mapper runs, and its handlers are removed.
//  7. The next Run begins with everything that the last Run left undone or would have retried, with keys added since, and with all present
//     objects. Attempts, budgets, and parked keys are kept. Objects deleted between two Runs are not reported, as after a restart of the
//     process.
//  8. A key that is paused, or whose expectations are not met, is held and not lost. It comes back when you resume it, with the event that
//     meets the expectations, or when they expire. After a reconcile has written to a store, its key is held until each informer of that
//     kind shows it, for at most 10 s after the end of the reconcile. A reconcile that begins without it is logged.
//  9. If a gate (package retry/gate) refuses a reconcile, the key occupies no worker and keeps its place at the gate.
//  10. If [Controller.WaitReconciled] returns nil, a reconcile of the key has succeeded that began after the caches had seen the version.
//     If [Controller.WaitIdle] returns nil, everything that the caches held at the call has been mapped. Afterward, there was a moment
//     with no key ready, in flight, or held.
//  11. A reconcile begins only while its leadership holds: that of Run, or of a slot. Right before it, the controller checks the clock
//     ([leaderelect.Leadership.Err]), so a process that was suspended begins none past the deadline. It also begins only after each cache has
//     everything that was accepted in earlier terms: see [Controller.CatchUp]. If a leadership is lost, the contexts
//     of its reconciles end before that of Run. Only the term, checked by the receiver, stops a write of a process that is suspended right
//     after the check.
//  12. With Config.Resync, each key known to a watch and each parked key is added once per period. The moment of a key is random,
//     and the same in all periods. A resync supersedes no reconcile. It revives a parked key, as an
//     event does.
//
// # Testing
//
// Everything works in a testing/synctest bubble. [Controller.Connect] attaches the watches without a Run, [Controller.Ready] lists the
// ready keys, and [Controller.Step] reconciles one of them. With [informer.Steps], the test also decides how far each cache is behind its
// source. Outside a bubble, [Controller.WaitReconciled] and [Controller.WaitIdle] replace polling.
package controller
