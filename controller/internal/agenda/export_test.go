package agenda

// HasMap reports whether b keeps memory.
func (b *Causes[K]) HasMap() bool { return b.keys != nil }
