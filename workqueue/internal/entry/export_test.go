package entry

import "math"

// Slots returns the number of slots.
func (t *Table[K]) Slots() int { return t.slots.Size() }

// Size returns the number of entries for which there is memory, in use or free.
func (t *Table[K]) Size() int { return int(t.pool.size) }

// RunOut makes the numbers of wakeups run out after n more.
func (s *Schedule[K]) RunOut(n uint32) { s.number = math.MaxUint32 - n }
