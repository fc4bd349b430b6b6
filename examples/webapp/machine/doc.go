// Package machine is the process table of this machine: the replicas that run, read from the operating system each
// time it is asked, so that it is true after any crash of whoever started them.
//
// # Usage
//
//	m, err := machine.Open("state", machine.Config{Changed: poller.Nudge})
//	go m.Run(ctx)                                                      // reports exits at once; somebody waits for it
//	err = m.Start(ctx, machine.Spec{ID: "blue-1", App: "blue", Revision: "r1", Message: "hello"})
//	replicas, err := m.List(ctx)                                       // what there is
//	err = m.Probe(ctx, replicas[0])                                    // does it answer
//	m.ReportHealth("blue-1", err)                                      // three failures in a row make it Unhealthy
//	m.Drain("blue-1")                                                  // whoever sends it connections is to stop that
//	err = m.Stop(ctx, "blue-1")                                        // SIGTERM; again after the grace: SIGKILL
//
// # Records
//
// A directory holds one record per replica, <id>.replica.json, and beside it the log of the replica, <id>.replica.log.
// The first line of a record is what was asked for, written before the process exists. The lines after it are what is
// known of the process, {"pid":1,"port":2}, appended by the machine and by the replica itself. Each line is a JSON
// object; later fields override earlier ones; a line that is not whole is not there yet.
//
// The record is locked with flock, exclusively, before it gets its name, and the process inherits the open file. So
// the lock is held, without a gap, from before the process exists until it is dead, whoever its parent is, and the
// kernel lets go of it whatever the process died of:
//
//	         Start                        the process is dead, or was never there
//	(none) ---------> record, locked --------------------------------------------> record, free ---> (none)
//	                  alive: List shows it                                         stale: List removes it
//
// No pid has to be trusted. A crash of the starter at any point leaves a process that is on record, or a stale record,
// or a file without a name that the next Open removes.
//
// # States
//
//	Starting ---> Running ---> Ready <---> Unhealthy       and from each of them, by Drain: ---> Draining
//	 no port      it listens   a probe     N failures in a                  by Stop or Kill: ---> Stopping
//	 yet                       succeeded   row, also from Running
//
// Starting and Running are read from the record. The other states are what this Machine was told or did; another Machine
// over the same directory starts from Running and asks again.
//
// # Guarantees
//
//  1. Level-triggered: List is the current state. Nothing that happened while nobody looked is missed.
//  2. Two replicas never have one ID at once, even when two processes start them.
//  3. A signal goes to the process that holds the lock of the record, and to no other, whatever pid is on record: on
//     Linux the kernel is asked who holds the lock. Elsewhere the record is believed, so nobody else may write to the
//     directory, and a pid that is given away between the check and the signal is an exception.
//  4. A record is removed only when its process is dead. Removing races with nothing: any number of processes may list,
//     start and stop at once, and one that was suspended in the middle holds nobody up.
//  5. A replica outlives whoever started it: it has a session of its own, so that a signal from a terminal does not
//     reach it, and it holds none of the starter's files but its record and its log.
//  6. Nothing happens behind the caller's back. There is no timer that kills: Stop has to be called again, as a
//     reconciler does, and escalates when the grace is over.
//  7. Right before a process is started or signalled, [Config.Permit] is asked.
//
// # Shutdown
//
// Run is the only method that goes on until its context ends. It starts no goroutine. Replicas go on when it has
// returned. StopAll ends them.
//
// # Testing
//
// The default command is this executable with the argument "replica". A test binary whose TestMain hands that
// argument to replica.Main is a world of its own.
package machine
