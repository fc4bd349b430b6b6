package shard_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

// loads returns how many slots each member has, and how many slots have another owner than before.
func loads(owners, before []int) (perMember map[int]int, moves int) {
	perMember = make(map[int]int)
	for slot, m := range owners {
		perMember[m]++
		if m != before[slot] {
			moves++
		}
	}
	return perMember, moves
}

// checkPlan requires that all slots go to members, in balance, and that nothing more would move.
func checkPlan(t *testing.T, owners, before, members []int) (moves int) {
	t.Helper()
	n, moves := loads(owners, before)
	least, most := len(owners), 0
	for _, m := range members {
		least, most = min(least, n[m]), max(most, n[m])
		delete(n, m)
	}
	require.Empty(t, n, "owners that are not members")
	require.LessOrEqual(t, most-least, 1, "balance")
	require.Equal(t, owners, shard.Plan(owners, members, nobodyDeclines), "a plan is final")
	shuffled := slices.Clone(members)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.Sort(shuffled)
	require.Equal(t, owners, shard.Plan(before, shuffled, nobodyDeclines), "it is a function")
	return moves
}

func free(slots int) []int { return slices.Repeat([]int{-1}, slots) }

func TestPlanIsBalancedWithMinimalMoves(t *testing.T) {
	t.Parallel()
	for slots := 1; slots <= effort(24, 40); slots++ {
		for count := 1; count <= 12; count++ {
			members := make([]int, count)
			for i := range members {
				members[i] = i * 3
			}
			owners := shard.Plan(free(slots), members, nobodyDeclines)
			checkPlan(t, owners, free(slots), members)

			joined := append(slices.Clone(members), 100)
			next := shard.Plan(owners, joined, nobodyDeclines)
			moves := checkPlan(t, next, owners, joined)
			got, _ := loads(next, owners)
			require.Equal(t, got[100], moves, "%d slots, one joins %d", slots, count)
			require.LessOrEqual(t, moves, ceil(slots, count+1))

			for leaves := range members {
				left := slices.Delete(slices.Clone(members), leaves, leaves+1)
				if len(left) == 0 {
					continue
				}
				had, _ := loads(owners, owners)
				next := shard.Plan(owners, left, nobodyDeclines)
				moves := checkPlan(t, next, owners, left)
				require.Equal(t, had[members[leaves]], moves, "%d slots, one leaves %d", slots, count)
				require.LessOrEqual(t, moves, ceil(slots, count))
			}
		}
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }

func TestPlanRepairsAnyState(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range effort(800, 20_000) {
		members := random.Perm(12)[:1+random.IntN(8)]
		slices.Sort(members)
		before := make([]int, 1+random.IntN(64))
		for i := range before {
			before[i] = random.IntN(14) - 1
		}
		next := shard.Plan(before, members, nobodyDeclines)
		moves := checkPlan(t, next, before, members)
		stay, more := 0, 0
		had, _ := loads(before, before)
		for _, m := range members {
			stay += min(had[m], len(before)/len(members))
			if had[m] > len(before)/len(members) {
				more++
			}
		}
		stay += min(more, len(before)%len(members))
		require.Equal(t, len(before)-stay, moves, "no other plan that is balanced moves less: %v, %v", before, members)
	}
}

func TestOverloadedMemberKeepsItsHighestRankedSlots(t *testing.T) {
	next := shard.Plan(make([]int, 20), []int{0, 1}, nobodyDeclines)
	var kept, given []uint64
	for slot, m := range next {
		if m == 0 {
			kept = append(kept, shard.Rank(slot, 0))
		} else {
			given = append(given, shard.Rank(slot, 0))
		}
	}
	require.Len(t, kept, 10)
	assert.Greater(t, slices.Min(kept), slices.Max(given))
}

func TestNoMembersOwnNothing(t *testing.T) {
	assert.Equal(t, free(3), shard.Plan([]int{1, 2, -1}, nil, nobodyDeclines))
}

func TestUnownedSlotsGoToHighestRankedMember(t *testing.T) {
	// Slot by slot, with room for all: the ranking itself. A change would move slots of running systems.
	var first []int
	for slot := range 12 {
		owners := slices.Repeat([]int{7}, 12) // 7 is not a member
		owners[slot] = -1
		first = append(first, shard.Plan(owners, []int{0, 1, 2, 3}, nobodyDeclines)[slot])
	}
	assert.Equal(t, []int{0, 0, 3, 1, 0, 3, 1, 3, 1, 2, 2, 2}, first)
}

func TestKeyToSlotMappingIsStable(t *testing.T) {
	got := map[string]int{}
	for _, k := range []string{"", "a", "b", "tenants/17", "日本"} {
		got[k] = shard.SlotOf(k, 64)
	}
	assert.Equal(t, map[string]int{"": 53, "a": 3, "b": 36, "tenants/17": 41, "日本": 19}, got)
	counts := make([]int, 16)
	for i := range 16_000 {
		counts[shard.SlotOf(fmt.Sprint("tenants/", i), 16)]++
	}
	for _, n := range counts {
		assert.InDelta(t, 1000, n, 150)
	}
}

func nobodyDeclines(int, int) bool { return false }

func TestDeclinedSlotGoesToAnotherMember(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 7))
	for range effort(800, 20_000) {
		slots, members := 1+random.IntN(20), random.Perm(8)[:1+random.IntN(5)]
		declined := map[[2]int]bool{}
		for range random.IntN(slots * len(members)) {
			declined[[2]int{random.IntN(slots), members[random.IntN(len(members))]}] = true
		}
		declines := func(slot, member int) bool { return declined[[2]int{slot, member}] }
		owners := free(slots)
		for slot := range owners {
			owners[slot] = random.IntN(9) - 1
		}
		for range 3 { // the second time it is given its own plan
			owners = shard.Plan(owners, members, declines)
			for slot, owner := range owners {
				willing := slices.ContainsFunc(members, func(m int) bool { return !declines(slot, m) })
				require.Equal(t, willing, owner != -1, "slot %d has owner %d", slot, owner)
				require.False(t, owner != -1 && declines(slot, owner), "slot %d goes to a member that declines it", slot)
			}
		}
	}
}

func TestMemberDecliningSlotGetsItsShareOfOthers(t *testing.T) {
	declines := func(slot, member int) bool { return slot == 3 && member == 0 }
	owners := free(16)
	for range 3 {
		owners = shard.Plan(owners, []int{0, 1}, declines)
	}
	count := [2]int{}
	for _, owner := range owners {
		count[owner]++
	}
	assert.Equal(t, [2]int{8, 8}, count)
	assert.Equal(t, 1, owners[3])
}

func TestSlotHasRangeOfHashes(t *testing.T) {
	// The first four bytes of MD5("a") are 0cc175b9, those of MD5("acme") 53bce4f1.
	for key, hash := range map[string]uint64{"a": 0x0cc175b9, "acme": 0x53bce4f1, "": 0xd41d8cd9} {
		for slots := 1; slots <= 4096; slots = slots*3/2 + 1 {
			from, to := shard.HashRange(shard.SlotOf(key, slots), slots)
			assert.True(t, from <= hash && hash < to, "%q has hash %x, and one of %d slots from %x to %x", key, hash, slots, from, to)
		}
	}
	for _, slots := range []int{1, 2, 3, 7, 64, 100, 4095, 4096} {
		end := uint64(0)
		for slot := range slots {
			from, to := shard.HashRange(slot, slots)
			assert.Equal(t, end, from)
			assert.Greater(t, to, from)
			end = to
		}
		assert.Equal(t, uint64(1)<<32, end)
	}
}
