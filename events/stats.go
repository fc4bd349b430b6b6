package events

// Stats is what a [Recorder] has done, and holds.
type Stats struct {
	Recorded uint64 // calls that were taken down, repeats included
	Limited  uint64 // calls that were dropped, because there were too many new events about their object
	Untold   uint64 // repeats that were counted and not passed on, because there were too many

	Held    int // events
	Objects int // that are watched for floods

	Write QueueStats // what was put for Config.Write
	Store QueueStats // what was put for Config.Store
}

// QueueStats is what has become of the events for Config.Write or Config.Store. Each one that was put waits, is being delivered,
// or was merged, dropped, delivered, or has failed.
type QueueStats struct {
	Waiting int

	Delivered uint64
	Merged    uint64 // that took the place of an earlier state of the same event, which was still waiting
	Dropped   uint64 // to make room
	Failed    uint64 // that the sink has refused in all attempts, or at which it has panicked
}
