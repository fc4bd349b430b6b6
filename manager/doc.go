// Package manager starts and stops the parts of a program in the right order: informers, controllers, an election if there are several
// replicas, and any other part that has a name and a Run. It stops gracefully: work in flight has time to end.
//
// # Usage
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	context.AfterFunc(ctx, stop) // the first signal stops gracefully, the second ends the process at once
//	m, err := manager.New(manager.Config{Election: election}, c, manager.At(manager.Outer, recorder))
//	...
//	err = m.Run(ctx)
//
// The manager also runs the informers that its parts need ([Part]), each once.
//
// # Stages
//
// A [Manager] starts down the left side and stops up the right:
//
//	parts of stage Outer run, and informers          parts of stage Outer and informers have ended
//	    |                                                    ^
//	    |  all have started, all informers have synced       |
//	    v                                                    |
//	parts of stage Always run                        lease is released
//	    |                                                    ^
//	    |  all have started                                  |
//	    v                                                    |
//	standby  <-----------------------.               BeforeRelease has returned
//	    |                            |                       ^
//	    |  lease is acquired         |  lease is lost        |
//	    v                            |                       |
//	parts of stage Leading run ------'               parts of stages Always and Leading have ended:
//	    |                                            handlers are removed, reconciles finish
//	    |                                                    ^
//	    '----------------------------------------------------'
//	              ctx ends, or a part fails
//
// A stop goes up from where the manager is: from standby it does not call BeforeRelease, and there is no lease to release. A standby runs
// its informers, so its caches are warm when it takes over. They may be a little behind, so a controller catches up before its first
// reconcile of the term: see [controller.Controller.CatchUp]. Any other part of stage Leading that reads a cache must do so itself, with
// [informer.Informer.CatchUp]. If the lease is lost, the parts of stage Leading stop at once: they drain
// nothing, the manager does not call BeforeRelease, and it campaigns again. If the leader resigns, they drain, and the manager calls
// BeforeRelease, as in a stop.
//
// With Config.Shards instead of an election, there is no standby. All parts run as soon as the informers have synced, and each controller
// reconciles the keys of the slots that this replica owns: see [controller.Controller.Share]. Work in a slot begins after the controllers
// have prepared it. So a cache whose source was made by [informer.Divide] holds the objects of these slots only. If the controllers cannot prepare
// a slot within a LeaseDuration, this replica leaves the slot to others for a while: see shard.Config.Prepare. In a stop, they drain while the replica still
// owns the slots. The slots are released after BeforeRelease.
//
// Parts can be added and removed before and during Run. [Manager.Stats] returns the state of the manager and of each part: see [PartStats].
//
// # Guarantees
//
//  1. A part starts after all parts of earlier stages, in the order Outer, Always, Leading, that were there when Run began, or were added
//     before or with it: their Run has been called, and those that are informers have synced. The same holds for its own informers, and for
//     the first election. Parts that have been removed do not count.
//  2. A part of stage Leading starts only while this process leads. It ends before BeforeRelease of the term begins, before the
//     lease is released, and before the next term of this process.
//  3. A stop ends the contexts of all parts of stages Always and Leading at once. After they have ended, it calls BeforeRelease,
//     then releases the lease, and then ends the parts of stage Outer.
//  4. No part runs twice concurrently. An informer runs once, however many parts need it. A name belongs to one part until
//     that part has ended after its removal.
//  5. A removal affects no other part. When [Manager.Remove] returns nil, the part, and the informers that only it needed, have ended
//     and do not run again. An informer that another part needs ends after the last such part.
//  6. When a part fails or panics, it runs again as Config.Restart says, and the manager logs the error. Otherwise everything stops, and
//     Run returns the error. Run or Remove returns the error of a part whose context has ended, unless it wraps context.Canceled or the
//     cause of the context. If only the term of the part is over, the manager logs that error.
//  7. When Run returns, all parts and goroutines of the manager have ended, unless its error wraps [ErrStopTimeout]: that error names the
//     parts that it left behind. A part that ignores the end of its context delays those after it until the limit of the stop
//     (StopTimeout). The lease is not released while a part of stage Always or Leading, or BeforeRelease, is still running. If the lease
//     expires in that time, the process ends: see Config.Election.
package manager
