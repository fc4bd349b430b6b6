// Package manager starts and stops the parts of a program in the right order: informers, controllers, an election if there
// are several replicas, and whatever else has a name and a Run. It ends them so that no work is cut off in the middle.
//
// # Usage
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	context.AfterFunc(ctx, stop) // the first signal stops in order, the second ends the process at once
//	m, err := manager.New(manager.Config{Election: election}, c, manager.At(manager.Outer, recorder))
//	...
//	err = m.Run(ctx)
//
// The manager runs the informers that its parts need ([Part]), each once. Nobody adds them.
//
// # Stages
//
// What a [Manager] does, down the left side, and up the right:
//
//	parts of stage Outer run, and sources            parts of stage Outer and sources have ended
//	    |                                                    ^
//	    |  all sources have synced                           |
//	    v                                                    |
//	parts of stage Always run                        lease is released
//	    |                                                    ^
//	    v                                                    |
//	standby  <-----------------------.               BeforeRelease has returned
//	    |                            |                       ^
//	    |  lease is acquired         |  lease is lost        |
//	    v                            |                       |
//	parts of stage Leading run ------'               parts of stages Always and Leading have ended:
//	    |                                            handlers are removed, queues are drained
//	    |                                                    ^
//	    '----------------------------------------------------'
//	              ctx ends, or a part fails
//
// The stop leaves out on the right what was not reached on the left: a manager that stops in standby does not call
// BeforeRelease and has no lease to release. A standby runs its sources, so that its caches are warm when it takes over. When the
// lease is lost, the parts of stage Leading stop at once: they drain nothing, the manager does not call BeforeRelease, and it
// campaigns again. When the leader resigns, they drain, and the manager calls BeforeRelease, as in a stop.
//
// With Config.Shards in the place of an election there is no standby. All parts run as soon as the sources have synced, and
// each controller reconciles the keys of the slots that this replica owns: see controller.Controller.Share. In a stop they drain while
// this replica still owns the slots. It releases them after BeforeRelease, as it would a lease.
//
// Parts can be added and removed before and while the manager runs. What [Manager.Stats] says of each, where a part that is
// no source goes from waiting to running:
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
// # Guarantees
//
//  1. No part of stages Always and Leading starts, and no election begins, before all sources that were there when Run began
//     have synced. Besides, no such part runs before each source that was added before it has, and each of its own. A source
//     that is gone is not waited for.
//  2. A part of stage Leading starts only while this process leads. It has ended before BeforeRelease of the term begins, before
//     the lease is released, and before another term of this process begins.
//  3. In a stop all parts of stages Always and Leading are told to end at once. BeforeRelease begins when all have ended. The lease
//     is released after it, and the parts of stage Outer are told to end after that.
//  4. No part runs twice concurrently. A source that several parts need, or that was added too, runs once. A name belongs to
//     one part, until that has ended after its removal.
//  5. A removal touches no other part. When it returns nil, the part and the sources that only it needed have ended and do not
//     run again. A source ends after the last part that needs it.
//  6. When a part fails, Restart hears of it once, with its name; a panic is a failure like others. Run returns the error if it
//     stops everything; the manager logs it if it does not. An error of a part that was told to end is returned by whoever
//     told it: Run, or Remove. One that has context.Canceled, or the cause of the context, anywhere in its tree says that
//     the part was told, and is dropped.
//  7. When Run returns, all parts have ended, and nothing of the manager runs, unless its error wraps [ErrStopTimeout] and
//     names parts that it had to leave behind. A part that ignores the end of its context holds up what comes after it until
//     the limit of the stop (StopTimeout). While a part of stages Always or Leading, or BeforeRelease, goes on that was left behind,
//     the lease is not released. When it expires then, the process ends: see Config.Election.
package manager
