// Package events tells people what happened: what a controller did about an object, and what it could not do.
//
// Events are for eyes. No program decides by them: they are merged, bounded in number, and gone with the process.
//
// # Usage
//
//	rec := events.NewRecorder(events.Config{Sink: events.SlogSink(logger)})
//	about := events.Ref{Kind: "app", Key: app.Key, UID: app.UID}
//	rec.Normal(about, "Scaled", "3 replicas, were 2")
//	rec.Warning(about, "NoCapacity", "no machine has 4 cores free")
//
// A reason is one word in CamelCase that a machine can count by; a message is a sentence. Keep what changes with every
// attempt (times, counters, addresses) out of the message, and repeats merge.
//
// # Guarantees
//
//  1. A recorder never blocks on anything but its Sink, starts no goroutine, and holds at most Config.Size events.
//  2. Events with the same reference, type, reason and message are one event, with a count and the first and last time, as
//     long as it is held. A repeat makes it the newest. Order is that of the last time.
//  3. The oldest event makes room. An event that comes back after it made room starts again at one.
//  4. Config.Sink gets every call, once, after it was recorded, with the event as it stood at that moment. Two calls that
//     run at once may reach it in either order; their counts tell them apart.
//
// # Testing
//
// Time is taken from package time, so that a test in a testing/synctest bubble decides it. Ask [Recorder.Events] what
// was recorded.
package events
