// Package machine is the process table of this machine: the running replicas, read from the operating system at each
// call, so that it is correct after any crash of the processes that started them.
//
// # Usage
//
//	m, err := machine.Open("state", machine.Config{Changed: poller.Nudge})
//	go m.Run(ctx)                                                      // reports exits at once; wait for it at the end
//	err = m.Start(ctx, machine.Spec{ID: "blue-1", App: "blue", Revision: "r1", Message: "hello"})
//	replicas, err := m.List(ctx)                                       // the running replicas
//	err = m.Probe(ctx, replicas[0])                                    // does it answer?
//	m.ReportHealth("blue-1", err)                                      // three consecutive failures make it Unhealthy
//	m.Drain("blue-1")                                                  // List says Draining: send it no new connections
//	err = m.Stop(ctx, "blue-1")                                        // SIGTERM; again after the grace: SIGKILL
//
// # Records
//
// A directory holds one record per replica, <id>.replica.json, and next to it the log of the replica, <id>.replica.log.
// The first line of a record is the request, written before the process exists. The lines after it describe the process,
// {"pid":1,"port":2}, appended by the machine and by the replica itself. Each line is a JSON object; later fields
// override earlier ones; an incomplete line is ignored.
//
// The record is locked with flock, exclusively, before it gets its name, and the process inherits the open file. So the
// lock is held, without a gap, from before the process exists until it is dead, whatever its parent is. However the
// process dies, the kernel releases the lock:
//
//	         Start                        the process is dead, or was never there
//	(none) ---------> record, locked --------------------------------------------> record, free ---> (none)
//	                  alive: List shows it                                         stale: List removes it
//
// No pid has to be trusted. A crash of the starter leaves a process that is on record, a stale record, or a file with a
// temporary name, which the next Open removes.
//
// # States
//
//	Starting ---> Running ---> Ready <---> Unhealthy       and from each of them, by Drain: ---> Draining
//	 no port      it listens   a probe     N failures in a                  by Stop or Kill: ---> Stopping
//	 yet                       succeeded   row, also from Running
//
// Starting and Running are read from the record. The other states are known only to this Machine. Another Machine over
// the same directory starts from Running and probes again.
//
// # Guarantees
//
//  1. Level-triggered: List is the current state. Changes between two calls are not missed.
//  2. Two replicas never have one ID at once, even when two processes start them.
//  3. A signal goes to the process that holds the lock of the record, and to no other, whatever pid is on record. On
//     Linux, the kernel says which process holds the lock. Elsewhere, the machine trusts the record, so no other
//     program may write to the directory. A system without handles of processes (pidfd) has an exception: a pid that is
//     reused between the check and the signal.
//  4. A record is removed only when its process is dead. Removal is free of races: any number of processes may list,
//     start, and stop at once, and a process that is suspended in the middle does not block the others.
//  5. A replica outlives the process that started it: it has its own session, so a signal from a terminal does not
//     reach it. It holds none of the starter's files except its record and its log.
//  6. Nothing happens without a call. No timer kills: Stop has to be called again, as a reconciler does, and
//     escalates when the grace is over.
//  7. [Config.Permit] is called right before a process is started or signaled.
//
// # Shutdown
//
// Run is the only method that runs until its context ends. It starts no goroutine. Replicas continue after Run has
// returned. StopAll ends them.
//
// # Testing
//
// The default command is this executable with the argument "replica". A test binary whose TestMain passes that argument
// to replica.Main needs no other program.
package machine
