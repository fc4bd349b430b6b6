// Package events tells people what happened: what a controller did about an object, and what it could not do.
//
// Events are for eyes. No program decides by them: they are merged, limited and bounded in number, and the oldest go.
//
// # Usage
//
//	rec, err := events.NewRecorder(events.Config{Store: db})
//	rec.Normal(site.Ref(), "Scaled", "3 servers, were 2")
//	rec.Warning(site.Ref(), "NoCapacity", "no machine has 4 cores free")
//	m, err := manager.New(manager.Config{}, c, manager.At(manager.Outer, rec))
//
// A reason is one word in CamelCase that a machine can count by; a message is a sentence. Keep what changes with every attempt
// (times, counters, addresses) out of the message, and repeats merge.
//
// A [Recorder] remembers the newest events by itself. Config.Sink gets them at once; Config.Write and Config.Store get them from Run:
//
//	           merge, limit                                  merge, drop, try again
//	Normal  -> Recorder -> Config.Sink: SlogSink, a counter
//	Warning       |     -> a queue, until Run takes from it -> Config.Write: a network
//	              |     -> another one                      -> Config.Store: objects, of which the old ones go
//	              v
//	           Events: the ring
//
// # Guarantees
//
// Of what is recorded:
//
//  1. Normal and Warning never wait for anything but Config.Sink, and start no goroutine. A Recorder holds at most Config.Size
//     events, twice Config.QueueSize that wait, and the limits of Config.Objects objects. Those of an object that is gone are
//     forgotten.
//  2. Events with the same reference, type, reason and message are one event, with a count and the first and last time, as
//     long as it is held. A repeat makes it the newest. Order is that of the last time.
//  3. The oldest event makes room. An event that comes back after it made room starts again at one.
//  4. About one object, Config.Burst new events are recorded, and one more in every Config.Refill; others are dropped and
//     counted. A flood about one object takes nothing from another, and a flood of repeats takes nothing from what is new.
//  5. Config.Sink gets every call within the limits, once, after it was recorded, with the event as it stood at that moment. A
//     repeat above the limit is counted, and its count is passed on with the next one. Two concurrent calls may reach the
//     sink in either order; their counts tell them apart.
//
// Of the queues for Config.Write and Config.Store:
//
//  6. They never hold up a call of Normal or Warning. At most Config.QueueSize events wait; above that, the one that has waited
//     longest is dropped. Write and Store have a queue each, so neither waits for the other.
//  7. Nothing is lost silently: each event is waiting, being delivered, merged into a later state of the same event, dropped,
//     delivered or failed, and [Stats] counts each once.
//  8. Each of the two gets one event at a time, in the order in which they began to wait, and again when it fails. An event
//     whose delivery a stop interrupts is delivered again: Write may get an event twice.
//
// Of Config.Store:
//
//  9. Each event is one object. Its repeats update it, and writing a state again, or late, changes nothing.
//  10. No object is created without knowing that there is room: one process alone never lets the store hold more than Config.Max
//     events. The oldest are deleted, and none that was repeated since it was read.
//
// # Testing
//
// The only clock is that of package time, so everything works in a bubble of testing/synctest.
package events
