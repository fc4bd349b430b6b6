// Package events tells people what happened: what a controller did about an object, and what it could not do.
//
// Events are for eyes. No program decides by them: they are merged, limited and bounded in number, and the oldest go.
//
// # Usage
//
//	rec, err := events.NewRecorder(events.Config{Sink: events.SlogSink(logger)})
//	about := events.Ref{Kind: "app", Key: app.Key, UID: app.UID}
//	rec.Normal(about, "Scaled", "3 replicas, were 2")
//	rec.Warning(about, "NoCapacity", "no machine has 4 cores free")
//
// A reason is one word in CamelCase that a machine can count by; a message is a sentence. Keep what changes with every
// attempt (times, counters, addresses) out of the message, and repeats merge.
//
// A [Recorder] is all that a process needs that only looks at itself. A [Queue] brings its events to where it takes time:
//
//	           merge, limit                 merge, drop, try again
//	Normal  -> Recorder -> Config.Sink      Queue  -> a sink that may block
//	Warning       |        SlogSink           ^       StoreSink.Write: objects of a store, of which the old ones go
//	              |        Queue.Put ---------'
//	              v        Tee: several
//	           Events: the ring
//
//	sink, err := events.NewStoreSink(store, events.StoreConfig{TTL: time.Hour})
//	queue, err := events.NewQueue(sink.Write, events.QueueConfig{})
//	rec, err := events.NewRecorder(events.Config{Sink: events.Tee(events.SlogSink(logger), queue.Put)})
//	err = queue.Run(ctx) // beside the controllers, and stopped after them
//
// # Guarantees
//
// Of a [Recorder]:
//
//  1. It never blocks on anything but its Sink, starts no goroutine, and holds at most Config.Size events and the limits of
//     Config.Objects objects. Those of an object that is gone are forgotten.
//  2. Events with the same reference, type, reason and message are one event, with a count and the first and last time, as
//     long as it is held. A repeat makes it the newest. Order is that of the last time.
//  3. The oldest event makes room. An event that comes back after it made room starts again at one.
//  4. About one object, Config.Burst new events are taken down, and one more in every Config.Refill; others are dropped and
//     counted. A flood about one object takes nothing from another, and a flood of repeats takes nothing from what is new.
//  5. Config.Sink gets every call within the limits, once, after it was recorded, with the event as it stood at that moment.
//     A repeat above the limit is counted, and its count is told with the next one. Two calls that run at once may reach
//     the sink in either order; their counts tell them apart.
//
// Of a [Queue]:
//
//  6. Put never blocks. At most QueueConfig.Size events wait; above that the one that has waited longest is dropped.
//  7. Whatever was put is waiting, at the sink, merged into a later state of the same event, dropped, delivered or failed,
//     and [QueueStats] counts each once. Nothing is lost in silence.
//  8. The sink gets one event at a time, in the order in which they began to wait, and again when it fails. An event that a
//     stop interrupts is delivered again: a sink may get an event twice.
//
// Of a [StoreSink]:
//
//  9. Each event is one object; its repeats update it, and to write a state again, or late, changes nothing.
//  10. It creates no object without knowing that there is room: one process alone never lets the store hold more than
//     StoreConfig.Max events. It deletes the oldest, and none that was repeated since it looked.
//
// Of all: no lock is held while a sink is called.
//
// # Shutdown
//
// Queue.Run returns after its context has ended and what waits is delivered, or QueueConfig.DrainTimeout is over. What was
// not delivered waits for the next Run. Stop the queue after what records.
//
// # Testing
//
// Time is taken from package time, so that a test in a testing/synctest bubble decides it. Ask [Recorder.Events] what
// was recorded. With Config.Burst -1 nothing is limited.
package events
