package shard

import (
	"context"
)

// Plan says who should own each slot.
func Plan(owners, members []int, declines func(slot, member int) bool) []int {
	return plan(owners, members, declines)
}

// SlotOf returns the slot of a key.
func SlotOf(key string, slots int) int { return slotOf(key, slots) }

// Rank says how high a member ranks for a slot.
func Rank(slot, member int) uint64 { return rank(slot, member) }

// Blind does to the slots what a pause of the process does: nobody is told yet that the leaderships have ended.
func (s *Slots) Blind() {
	for _, one := range s.slots {
		one.mu.Lock()
		if one.until != nil {
			one.until = context.WithoutCancel(one.until)
		}
		one.mu.Unlock()
	}
}
