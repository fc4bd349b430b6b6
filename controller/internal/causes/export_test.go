package causes

// HasMap reports whether b keeps memory.
func (b *Book[K]) HasMap() bool { return b.keys != nil }
