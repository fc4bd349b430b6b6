package shard

import (
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"slices"
)

// nobody stands for no member: the owner of a slot without an owner.
const nobody = -1

// plan returns the member that should own each slot. owners has the member that owns it now, or nobody. declines reports
// whether a member declines a slot. plan is a pure function, so replicas that see the same records agree.
//
//   - Every slot goes to a member that does not decline it, or to nobody if all members decline it. The numbers of slots per
//     member differ by at most one, unless that would leave a slot without an owner.
//   - A slot stays with its owner unless the owner has too many. So a member that joins moves only the slots that it gets. A
//     member that leaves moves only the slots that it had, and at most one more for each member that stays.
//   - A slot that moves goes to the member with room that ranks first for it by rendezvous hashing
//     (https://doi.org/10.1109/90.663936). A member with too many slots keeps those for which it ranks highest.
func plan(owners, members []int, declines func(slot, member int) bool) []int {
	next := slices.Repeat([]int{nobody}, len(owners))
	if len(members) == 0 {
		return next
	}
	owned := make(map[int][]int, len(members)) // slots by member
	for _, m := range members {
		owned[m] = nil
	}
	for slot, m := range owners {
		if _, ok := owned[m]; ok && !declines(slot, m) {
			owned[m] = append(owned[m], slot)
		}
	}

	// The members that own the most slots may keep one more than the others.
	room := make(map[int]int, len(members))
	most := slices.Clone(members)
	slices.SortStableFunc(most, func(a, b int) int { return cmp.Compare(len(owned[b]), len(owned[a])) })
	for i, m := range most {
		room[m] = len(owners) / len(members)
		if i < len(owners)%len(members) {
			room[m]++
		}
	}

	for _, m := range members {
		// A slot that all others decline is sorted last, because m would get it back.
		lonely := func(slot int) int {
			if slices.ContainsFunc(members, func(other int) bool { return other != m && !declines(slot, other) }) {
				return 1
			}
			return 0
		}
		slices.SortStableFunc(owned[m], func(a, b int) int {
			return cmp.Or(cmp.Compare(lonely(a), lonely(b)), cmp.Compare(rank(b, m), rank(a, m)))
		})
		for _, slot := range owned[m][:min(room[m], len(owned[m]))] {
			next[slot] = m
			room[m]--
		}
	}
	for slot, m := range next {
		if m != nobody {
			continue
		}
		best := nobody
		for _, m := range members {
			if !declines(slot, m) && (best == nobody || better(slot, m, best, room)) {
				best = m
			}
		}
		if best != nobody {
			next[slot] = best
			room[best]--
		}
	}
	return next
}

// better reports whether slot should go to member a rather than to b. A member with room comes first. If neither has
// room, the member with the smaller excess comes first. Then rank decides.
func better(slot, a, b int, room map[int]int) bool {
	if c := cmp.Compare(min(room[a], 1), min(room[b], 1)); c != 0 {
		return c > 0
	}
	return rank(slot, a) > rank(slot, b)
}

// rank returns how high a member ranks for a slot.
func rank(slot, member int) uint64 { return mix(uint64(slot)<<32 | uint64(member)) }

// slotOf returns the slot of a key: each slot has an equal range of the hashes. It must never change, because replicas of different versions
// share a store.
func slotOf(key string, slots int) int { return int(hashOf(key) * uint64(slots) >> hashBits) }

// hashRange returns the hashes of a slot: from the first one on, and less than the second.
func hashRange(slot, slots int) (from, to uint64) {
	first := func(slot int) uint64 { return (uint64(slot)<<hashBits + uint64(slots) - 1) / uint64(slots) }
	return first(slot), first(slot + 1)
}

// hashBits is the number of bits of a hash.
const hashBits = 32

// hashOf returns the first bits of the MD5 of a key, which any database can compute as well. It has nothing to do with security.
func hashOf(key string) uint64 {
	sum := md5.Sum([]byte(key))
	return uint64(binary.BigEndian.Uint32(sum[:]))
}

// mix spreads every bit of x over all of them: the finalizer of SplitMix64 (https://doi.org/10.1145/2714064.2660195).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
