package shard

import (
	"context"
)

// Plan returns the member that should own each slot.
func Plan(owners, members []int, declines func(slot, member int) bool) []int {
	return plan(owners, members, declines)
}

// SlotOf returns the slot of a key.
func SlotOf(key string, slots int) int { return slotOf(key, slots) }

// Rank returns how high a member ranks for a slot.
func Rank(slot, member int) uint64 { return rank(slot, member) }

// Blind simulates a pause of the process: the slots have not noticed yet that their leaderships have ended.
func (s *Slots) Blind() {
	for _, one := range s.slots {
		one.mu.Lock()
		if one.until != nil {
			one.until = context.WithoutCancel(one.until)
		}
		one.mu.Unlock()
	}
}
