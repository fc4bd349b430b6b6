// Package entry keeps what a queue knows about its keys. An [Entry] is one key. It is found in a [Table], stands in a [Line] when it is ready,
// and is in a [Schedule] if it has deadlines.
//
// # Usage
//
// The lock of the queue guards everything here. The queue decides in which state an entry is, sets its fields, and tells the containers:
//
//	table := entry.NewTable[string]()
//	line, schedule := entry.NewLine(&table, aging, false, 0), entry.NewSchedule(&table)
//
//	e := table.Add(key, table.Hash(key))
//	e.State, e.Number = entry.Ready, 1
//	line.Push(e)
//	e.WakeAt = at
//	schedule.Update(e)
//
//	e = line.Pop()
//
// # Guarantees
//
//  1. An entry stays at its address until it is removed from its table. The fields that link it to others are private, so the caller can break
//     no container.
//  2. Adding an entry, finding it, and removing it take constant time, and one hash of the key in all.
//  3. A [List] is first in, first out.
//  4. A [Line] is first in, first out within a priority and a group. Groups take turns within a priority. None has more entries in process than
//     the limit. An entry of higher priority leaves first, unless the other has become ready earlier by more than the aging allows.
//  5. A [Schedule] has each entry at its earliest deadline. Of entries that are due at the same time, the one that was updated first comes first.
//  6. All of them free the memory of a burst. They keep what 4,096 keys need.
//
// # Why this is one package
//
// Entry, Line, and List refer to each other: an entry knows its group, a group knows its lanes, and a lane is a list of entries. The schedule is
// here because it marks an entry, which nothing else may do.
//
// # Testing
//
// Check of each container returns an error if an invariant does not hold. Kept tells for how much it has memory.
package entry
