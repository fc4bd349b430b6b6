package events

// Stats counts what a [Recorder] has done and how much it holds.
type Stats struct {
	Recorded uint64 // calls that were recorded, including repeats
	Limited  uint64 // calls that were dropped: too many new events about one object
	Untold   uint64 // repeats that were counted and not passed on at once: too many repeats about one object

	Held    int // events in memory
	Objects int // objects whose limits are in memory

	Write QueueStats // the events for Config.Write
	Store QueueStats // the events for Config.Store
}

// QueueStats counts the events for Config.Write or Config.Store by their fate. Each event is counted once, or is in delivery.
type QueueStats struct {
	Waiting int

	Delivered uint64
	Merged    uint64 // merged with another state of the same event that was still waiting
	Dropped   uint64 // dropped to make room
	Failed    uint64 // failed in all attempts, or with a panic
}
