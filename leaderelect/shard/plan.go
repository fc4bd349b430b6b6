package shard

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// nobody is the owner of a slot that nobody owns.
const nobody = -1

// plan returns the member that should own each slot, given the member that owns it, or nobody. declines reports whether a
// member declines a slot that it could not acquire. plan is a pure function, so replicas that see the same records agree.
//
//   - Every slot goes to a member that does not decline it, and to nobody if all decline. Members own as many as each
//     other, or one more, unless that would leave a slot without an owner.
//   - A slot stays with its owner unless the owner has too many. So a member that joins makes no more slots move than it
//     gets. A member that leaves makes no more move than it had, and at most one for each member that stays.
//   - A slot that moves goes to the member that ranks first for it by rendezvous hashing
//     (https://doi.org/10.1109/90.663936), of those that have room. A member that has too many keeps those slots for which
//     it ranks highest.
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

	// The members that own most may keep one more.
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
		// A slot that all others decline comes first: if m gave it up, m would get it back.
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

// better reports whether slot should go to member a rather than to b. Room comes first; of two without room, the one with
// the smaller excess; then rank.
func better(slot, a, b int, room map[int]int) bool {
	if c := cmp.Compare(min(room[a], 1), min(room[b], 1)); c != 0 {
		return c > 0
	}
	return rank(slot, a) > rank(slot, b)
}

// rank returns how high a member ranks for a slot.
func rank(slot, member int) uint64 { return mix(uint64(slot)<<32 | uint64(member)) }

// slotOf returns the slot of a key. It must never change, for replicas of different versions share a store.
func slotOf(key string, slots int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(mix(h.Sum64()) % uint64(slots))
}

// mix spreads every bit of x over all of them: the finalizer of SplitMix64 (https://doi.org/10.1145/2714064.2660195).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
