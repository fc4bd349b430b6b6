// Package controller has the loop that makes the world equal to what is desired, and what starts and stops such loops in
// the right order.
//
// A [Controller] has a queue of keys and calls a [Reconciler] for each of them. Keys come from informers ([Watch]), and
// from whoever else calls [Controller.Add]. A Reconciler is told a key and nothing else: not what happened, or how often.
// It reads what is desired and what is there, and changes what differs. So an event that was missed, repeated, merged or
// late never changes the result.
//
// A [Manager] runs informers and controllers, with an election if there are several replicas, and ends them so that
// nothing is cut off in the middle.
//
// # Usage
//
//	apps, err := informer.New(source, keyOf, informer.Config{Name: "apps"})
//
//	c, err := controller.New("apps", controller.Func[string](
//		func(ctx context.Context, key string) (controller.Result, error) {
//			app, ok := apps.Get(key)
//			if !ok {
//				return controller.Result{}, remove(ctx, key)
//			}
//			return controller.Result{}, apply(ctx, app)
//		}), controller.Config[string]{Workers: 4})
//	controller.WatchKeys(c, apps)
//
//	m, err := controller.NewManager(controller.ManagerConfig{})
//	m.AddSource(apps)
//	m.AddController(c)
//	err = controller.RunUntilSignal(context.Background(), m.Run) // also what AddSource and AddController had to say
//
// # Outcomes
//
// Each reconcile has one [Outcome], which is counted in [Stats] and reported to [Hooks].
//
//	Reconcile                            outcome     its key is reconciled again   attempt  backoff  logged
//	---------                            -------     ---------------------------   -------  -------  ------
//	returns no error                     Succeeded   when it is added              1        reset    Debug
//	returns no error, RequeueAfter: d    Requeued    after d                       1        reset    Debug
//	returns no error, RequeueAt: t       Requeued    at t                          1        reset    Debug
//	returns an error                     Failed      after the backoff             +1       grows    Warn
//	returns an error with a delay d      Deferred    after d                       +1       grows    Warn
//	returns an error after the timeout   TimedOut    as after Failed or Deferred   +1       as there Warn
//	panics, or calls runtime.Goexit      Panicked    after the backoff             +1       grows    Error, with the stack
//	one of these four, budget spent      Parked      when it is added              1        reset    Error
//	returns an error of Terminal         GivenUp     when it is added              1        reset    Error
//	returns an error with ErrSkip        Skipped     when it is added              1        reset    Debug
//	returns an error after ErrSuperseded Superseded  at once                       stays    stays    Debug
//	returns an error after a stop        Canceled    first thing by the next Run   stays    stays    Info
//	returns an error of a fenced write   Canceled    as after a stop               stays    stays    Warn
//
// A key is also reconciled again, at once, whenever it is added; then what that reconcile asks for counts, and what this one
// asked for does not. A Result beside an error is ignored. An error with a delay is one for which errors.As finds a method
// RetryAfter() time.Duration, and it is positive. Of several errors in one chain Terminal comes first, then ErrSkip, then what
// has ended the context: the timeout, a newer event, or a stop; then a fenced write. A write was fenced if the error wraps
// [store.ErrFenced], or has a method Fenced() bool that returns true: a later leader has written, and this one must not try
// again. The timeout is [Config.Timeout], and only it: a context that Reconcile itself has derived and ended
// makes its error Failed. A stop is what the section on shutdown says ends the context of a reconcile. The budget is
// [Config].MaxAttempts and MaxElapsed: a key that has spent it is parked, can be listed ([Controller.Parked]), retried and
// dropped, and has a whole budget when somebody adds it. A key that was given up can be listed, retried and dropped too.
//
// # Guarantees
//
//  1. No key is reconciled twice at once. Different keys are, up to Config.Workers.
//  2. After each Add of a key a reconcile of it begins, in the Run that is under way or in the next. So a key that is added
//     while it is reconciled comes back. Adds may be merged.
//  3. No reconcile begins before the informers that are watched, and the caches of Config.WaitFor, hold their first list,
//     and what they hold has been mapped.
//  4. Of a change both the old and the new object are mapped; of a deletion the last object known. An event adds no key
//     twice. A change that could not be mapped is mapped again until it is, in the next Run if need be, and no state that
//     the object takes on meanwhile is left out, up to 100 of them. What is no news, because it was there when the Run
//     began, or a resync tells it again, waits behind what is news.
//  5. A key that failed, panicked or timed out is tried again until it succeeds, is skipped, given up or parked. The number
//     of the attempt, when the first one failed, and why the key was added are in its context ([FromContext]), and in what
//     is logged of it ([Logger]). One key does not delay others, except by the worker that it has; a Goexit costs no worker.
//  6. When Run returns, its goroutines have ended, no Reconcile and no mapper runs, and its handlers are removed.
//  7. What a Run did not do, or would have tried again, is done at once by the next Run of the same controller, beside
//     all that is present. What was added between the two is done too, and attempts, budgets and parked keys are as they
//     were. Not so what was deleted between them: it is not reported, as it is not after a restart of the process.
//  8. A key that is paused, or whose expectations are not met, is not reconciled, and it is not lost: it is held, and comes
//     back when it is resumed, or by the event that meets its expectations, or when these expire. Nobody polls.
//  9. A key that Config.Gate does not let through is put back, and holds up no worker.
//  10. When [Controller.WaitReconciled] returns nil, a reconcile of the key has succeeded that began when the caches had seen
//     the version. When [Controller.WaitIdle] returns nil, everything that the watched caches held when it was called has
//     been mapped, and after that there was a moment at which nothing was ready, in flight or held.
//  11. A reconcile begins only while the leadership holds that it belongs to, that of Run or of a slot. The controller asks
//     the clock ([leaderelect.Leadership.Err]) right before each one. So a process that was suspended begins none after its
//     deadline, even if no timer has fired yet. When a leadership is lost, the contexts of its reconciles end before that
//     of Run. A suspend after the check cannot be seen: only the term, checked by the receiver, stops such a write.
//
// # Stages of a Manager
//
// What a [Manager] does, down the left side, and up the right:
//
//	sources run                                      sources have ended
//	    |                                                    ^
//	    |  all have synced                                   |
//	    v                                                    |
//	controllers of every replica run                 lease is released
//	    |                                                    ^
//	    v                                                    |
//	standby  <-----------------------.               stop hooks have run, the last added first
//	    |                            |                       ^
//	    |  lease is acquired         |  lease is lost        |
//	    v                            |                       |
//	controllers of the leader run ---'               all controllers have ended:
//	    |                                            handlers are removed, queues are drained
//	    |                                                    ^
//	    '----------------------------------------------------'
//	              ctx ends, or a part fails
//
// What was not reached on the left is left out on the right: a manager that stops in standby calls no stop hook and has
// no lease to release. A standby has its sources running, so that its caches are warm when it takes over. When the lease
// is lost the controllers of the leader stop at once: nothing is drained, no stop hook is called, and the manager campaigns
// again. When it is given up in an orderly way they are drained, and the stop hooks are called, as in a stop.
//
// With ManagerConfig.Slots in the place of an election there is no standby. All controllers run as soon as the sources have
// synced, each for the keys of the slots that this replica owns: see [Sharded]. In a stop they are drained while the slots
// are still owned; the slots are released after the stop hooks, as a lease is.
//
// Parts can be added and removed before and while the manager runs. What [Manager.Stats] says of each, where a controller
// goes from waiting to running:
//
//	added
//	  |
//	  v        its stage has begun, and the               has synced
//	waiting -- sources before it have synced --> syncing ------------> running
//	  ^                                            | ^                    |
//	  |                                      fails | | started again      | fails
//	  |                                            v |                    |
//	  |                                         backing off <-------------'
//	  |                                              |
//	  |        its stage is over, or it is removed   |  (also from syncing and running)
//	  |                                              v
//	  '---- until its stage begins again -------- stopping ----> gone, if it was removed
//
// A Manager guarantees:
//
//  1. No controller starts, and no election begins, before all sources that were there when Run began have synced.
//     Besides, no controller runs before each source that was added before it has. A source that is gone is not waited for.
//  2. A controller of the leader starts only while this process leads, and has ended before the stop hooks of the term
//     begin, before the lease is released, and before another term of this process begins.
//  3. In a stop all controllers are told to end at once. The stop hooks begin when all have ended. The lease is released
//     after the last hook, and the sources are told to end after that.
//  4. No part runs twice at once. A name belongs to one part, until that has ended after its removal.
//  5. A removal touches no other part. When it returns nil, the part has ended and does not run again.
//  6. When a part fails, OnFailure hears of it once, with its name; a panic is a failure like others. The error is
//     returned by Run if it stops everything, and logged if it does not. An error of a part that was told to end is
//     returned by whoever told it: Run, or the method that removes. One that has context.Canceled, or the cause of the
//     context, anywhere in its tree says that it was told, and is dropped.
//  7. When Run returns, all parts have ended, and nothing of the manager runs, unless its error wraps [ErrStopTimeout] and
//     names parts that it had to leave behind. A part that ignores the end of its context holds up what comes after it until
//     the limit of the stop (StopTimeout). While a controller or a stop hook that was left behind goes on, the lease is
//     not released, and when that is over the process ends: see ManagerConfig.Election.
//
// # Shutdown
//
// When the context of [Controller.Run] ends, the controller
//
//  1. removes its handlers from the informers,
//  2. leaves to the next Run what waits for another try or for the time that a Result names, what is held, and what is added
//     from now on,
//  3. reconciles what is ready, is in flight, or was added while it was in flight, unless it is paused,
//  4. ends the contexts of its reconciles after Config.DrainTimeout, with a cause that wraps [ErrDrainTimeout]; if there is
//     a leadership, at once when it is lost or its own time to drain is over, with the cause of the leadership,
//  5. returns when every Reconcile has returned: one that ignores its context holds up everything.
//
// The context of a reconcile does not end with that of Run, so work in flight is not disturbed by a stop that has time.
//
// # Testing
//
// Everything works in a bubble of testing/synctest. [Controller.ProcessNext] reconciles one key in the goroutine of the
// test. [Controller.Connect] attaches the watches without a Run, [Controller.Ready] lists the ready keys, and
// [Controller.Process] reconciles the one that the test chooses. With [informer.Steps] the test also decides how far each cache
// is behind its source. Outside of a bubble [Controller.WaitReconciled] and [Controller.WaitIdle] make polling needless.
package controller
