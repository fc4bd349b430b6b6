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

// HashRange returns the hashes of a slot.
func HashRange(slot, slots int) (from, to uint64) { return hashRange(slot, slots) }

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

// Owns reports whether Begin would succeed for key.
func (s *Slots) Owns(key string) bool {
	_, done, ok := s.Begin(context.Background(), key)
	if ok {
		done()
	}
	return ok
}
