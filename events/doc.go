// Package events records, for people to read, what a controller did about an object and what it could not do.
//
// No program should depend on events: they are merged, rate limited, and bounded in number, and the oldest are dropped.
//
// # Usage
//
//	rec, err := events.NewRecorder(events.Config{Store: db})
//	rec.Normal(site.Ref(), "Scaled", "3 servers, were 2")
//	rec.Warning(site.Ref(), "NoCapacity", "no machine has 4 cores free")
//	m, err := manager.New(manager.Config{}, c, manager.At(manager.Outer, rec))
//
// A reason is one word in CamelCase, so that a program can count events by it. A message is a sentence. Events merge only if their
// messages are equal, so leave times, counters, and addresses out of the message.
//
// A [Recorder] keeps the newest events in memory. It passes events to Config.Sink at once, and from Run to Config.Write and
// Config.Store:
//
//	           merge, limit                                  merge, drop, retry
//	Normal  -> Recorder -> Config.Sink: SlogSink, a counter
//	Warning       |     -> a queue, until Run takes from it -> Config.Write: a network
//	              |     -> another one                      -> Config.Store: objects; old ones are deleted
//	              v
//	           Events: the ring
//
// # Guarantees
//
// Recording:
//
//  1. Normal and Warning wait for nothing except Config.Sink and Config.Logger, and start no goroutine. In memory, a Recorder holds at most
//     Config.Size events, Config.QueueSize waiting events for each of Write and Store, and the limits of Config.Objects objects.
//  2. While an event is held, further calls with the same reference, type, reason, and message only raise its count. The event
//     has the times of the first and the last call. Events are in the order of their last call.
//  3. When a new event needs room, the oldest event is dropped. If it happens again later, its count starts at one.
//  4. Each object can have Config.Burst new events of each type at once, and one more per Config.Refill. Further new events are dropped and
//     counted, and the first Warning of such a flood is logged. A flood about one object does not affect other objects, and a flood of Normal
//     hides no Warning. A flood of repeats does not affect new events.
//  5. Config.Sink receives each call within the limits once, after it was recorded, with the event at that moment. A repeat above the limit
//     only raises the count, which the next repeat shows. Two concurrent calls may reach the sink in either order; their counts distinguish
//     them.
//
// The queues for Config.Write and Config.Store:
//
//  6. They never delay Normal or Warning. If more than Config.QueueSize events wait, the one that has waited longest is dropped.
//     Write and Store have separate queues, so neither waits for the other.
//  7. No event is lost silently. Each one is waiting, in delivery, merged into a later state, dropped, delivered, or failed, and
//     [Stats] counts each once.
//  8. Write and Store each receive one event at a time, in the order in which the events began to wait. If a delivery fails, it
//     is retried. If a stop interrupts a delivery, the next Run repeats it: Write may receive an event twice.
//  9. Write and Store receive the last count of each event when the limit of its repeats allows, and in the drain of Run at the latest.
//
// Config.Store:
//
//  10. Each event is one object, and repeats update it. Writing an earlier or equal state changes nothing.
//  11. With a single process, the store never holds more than Config.Max events. To make room, the process deletes the oldest, but none
//     that was repeated since it was read.
//
// # Testing
//
// All time comes from package time, so it is fake in a testing/synctest bubble.
package events
