package workqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestWithoutAgingHigherPriorityAlwaysComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Aging: -1}))
		for i, p := range []int{0, math.MinInt, 5, -1, math.MaxInt, 5, 0} {
			q.AddWith(fmt.Sprint(p, " ", i), prio(p))
			time.Sleep(time.Hour)
		}
		require.Equal(t, []string{
			fmt.Sprint(math.MaxInt, " 4"), "5 2", "5 5", "0 0", "0 6", "-1 3", fmt.Sprint(math.MinInt, " 1"),
		}, takeAll(q), "and within a priority first in, first out")
	})
}

// Guarantee 11, to the nanosecond.
func TestPriorityOvertakesOnlyWithinItsAgingAdvantage(t *testing.T) {
	const aging = 3 * time.Second
	for _, p := range []int{-2, 0, 1, 1 << 30} {
		for _, timestamps := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{Aging: aging, Timestamps: timestamps}))
				q.AddWith("grade", prio(7))
				finishAll(q)

				q.AddWith("low", prio(p))
				time.Sleep(2 * aging)
				q.AddWith("high", prio(p+2))
				require.Equal(t, []string{"high", "low"}, finishAll(q), "just in time")

				q.AddWith("low", prio(p))
				time.Sleep(2*aging + 1)
				q.AddWith("high", prio(p+2))
				require.Equal(t, []string{"low", "high"}, finishAll(q), "a nanosecond late")
			})
		}
	}
}

// Times and priorities must not be compared as rounded numbers, or by products that overflow.
func TestAgingIsExactForHugePrioritiesAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Aging: 1}))
		q.AddWith("lowest", prio(math.MinInt))
		q.AddWith("high", prio(math.MaxInt))
		q.AddWith("higher", prio(math.MaxInt-1))
		time.Sleep(100 * 365 * 24 * time.Hour)
		q.AddWith("highest", prio(math.MaxInt))
		require.Equal(t, []string{"high", "higher", "highest", "lowest"}, takeAll(q))
		q.AddWith("low", prio(1))
		time.Sleep(time.Nanosecond)
		q.AddWith("just in time", prio(2))
		require.Equal(t, []string{"just in time", "low"}, takeAll(q))
		q.AddWith("low 2", prio(1))
		time.Sleep(2 * time.Nanosecond)
		q.AddWith("late", prio(2))
		require.Equal(t, []string{"low 2", "late"}, takeAll(q))

		worth := must(workqueue.New(workqueue.Config[string]{Aging: 2})) // times 1<<63 it does not fit in 64 bits
		worth.AddWith("low", prio(math.MinInt))
		time.Sleep(time.Second)
		worth.Add("high")
		require.Equal(t, []string{"high", "low"}, takeAll(worth))
	})
}

func TestDefaultAgingIsTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith("low", prio(-1))
		time.Sleep(10 * time.Second)
		q.Add("in time")
		time.Sleep(time.Nanosecond)
		q.Add("late")
		require.Equal(t, []string{"in time", "low", "late"}, takeAll(q))
	})
}

// A raised key moves to the place that it would have if it had always had the priority: its waiting time counts.
func TestRaisedKeyKeepsItsWaitingTime(t *testing.T) {
	for _, aging := range []time.Duration{-1, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[string]{Aging: aging}))
			for i := range 10 {
				q.AddWith(fmt.Sprint("low ", i), prio(1))
				time.Sleep(time.Nanosecond)
				q.AddWith(fmt.Sprint("high ", i), prio(2))
				time.Sleep(time.Nanosecond)
			}
			for _, i := range []int{3, 8, 1, 9, 0} {
				q.AddWith(fmt.Sprint("low ", i), prio(2))
				require.NoError(t, q.CheckInvariants())
			}
			require.True(t, q.Cancel("low 8"))
			require.NoError(t, q.CheckInvariants())
			require.Equal(t, strings.Split("low 0,high 0,low 1,high 1,high 2,low 3,high 3,high 4,high 5,high 6,high 7,high 8,low 9,high 9", ","),
				takeAll(q)[:14])
		})
	}
}

func TestFirstPriorityKeepsReadyKeysInOrder(t *testing.T) {
	for _, timestamps := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[string]{Timestamps: timestamps}))
			q.Add("a")
			q.Add("b")
			time.Sleep(11 * time.Second)
			q.AddWith("first with a priority", prio(1))
			require.NoError(t, q.CheckInvariants())
			want := []string{"first with a priority", "a", "b"} // as if a and b were ready since now
			if timestamps {
				want = []string{"a", "b", "first with a priority"}
			}
			require.Equal(t, want, takeAll(q))
		})
	}
}

func TestMoreThanSixteenPrioritiesAreSeparateAndReleased(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{Aging: -1}))
	var want []string
	for i := range 3000 {
		p := i*7919%3000 - 1500
		q.AddWith(fmt.Sprint(p), prio(p))
		want = append(want, fmt.Sprint(1499-i))
	}
	require.NoError(t, q.CheckInvariants())
	require.Equal(t, want, finishAll(q))
	require.NoError(t, q.CheckInvariants())
	require.LessOrEqual(t, q.Levels(), 16)
}

func TestGroupsTakeTurnsWithinPriority(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, Aging: -1}))
	for _, k := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
		q.Add(k)
	}
	q.AddWith("a0", prio(1))
	require.Equal(t, []string{"a0", "a1", "b1", "c1", "a2", "b2", "a3"}, takeAll(q))
	require.NoError(t, q.CheckInvariants())
}

// infoOf returns the Info of a key that q has.
func infoOf(q *workqueue.Queue[string], key string) workqueue.KeyInfo[string] {
	info, _ := q.Info(key)
	return info
}

func by(group string) workqueue.AddOptions { return workqueue.AddOptions{Group: group} }

// A bulk job changes many keys, and then others change a few, some of them among the many.
func TestGroupsOfAdditionsTakeTurns(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{}))
	q.Add("plain")
	for i := range 100 {
		q.AddWith(fmt.Sprint("bulk ", i), by("job"))
	}
	q.AddWith("site", by("ann"))
	q.AddWith("bulk 90", by("ann"))
	q.AddWith("bulk 91", by("bob"))
	q.AddWith("bulk 92", workqueue.AddOptions{Group: "ann", Priority: 1})
	q.AddWith("site", by("job")) // which has many
	q.AddWith("bulk 93", by("eve"))
	assert.Equal(t, "eve", infoOf(q, "bulk 93").Group, "a new group")
	q.AddWith("plain", by("kim"))
	assert.Equal(t, "kim", infoOf(q, "plain").Group, "a key without a group")
	q.Add("bulk 91") // of no group
	require.NoError(t, q.CheckInvariants())
	assert.Equal(t, "bob", infoOf(q, "bulk 91").Group)
	require.Equal(t, []string{"bulk 92", "bulk 0", "bulk 90", "bulk 91", "bulk 93", "plain", "bulk 1", "site", "bulk 2"}, takeAll(q)[:9])
	require.NoError(t, q.CheckInvariants())
}

func TestKeyInProcessAndScheduledKeyChangeTheirGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1}))
		group := func(key string) string {
			t.Helper()
			require.NoError(t, q.CheckInvariants())
			return infoOf(q, key).Group
		}
		q.AddWith("a", by("job"))
		q.AddWith("b", workqueue.AddOptions{After: time.Hour, Group: "job"})
		require.Equal(t, []string{"a"}, takeAll(q))
		for i := range 3 {
			q.AddWith(fmt.Sprint("bulk ", i), by("job"))
		}
		q.AddWith("a", by("ann"))
		assert.Equal(t, "ann", group("a"), "of a key in process, which is dirty now")
		q.AddWith("a", by("job"))
		assert.Equal(t, "ann", group("a"), "the job has more keys")
		q.AddWith("b", by("bob"))
		assert.Equal(t, "bob", group("b"))
		q.Done("a")
		assert.Equal(t, []string{"bulk 0", "b", "a", "bulk 1", "bulk 2"}, takeAll(q))
		q.AddRateLimited("b")
		q.Done("b")
		assert.Equal(t, "bob", group("b"), "of a parked key")
		q.AddWith("b", by("ann"))
		assert.Equal(t, "ann", group("b"))
		for _, key := range takeAll(q) {
			q.Forget(key)
			q.Done(key)
		}
		q.Cancel("b") // its wake-up
		q.Add("b")
		assert.Empty(t, group("b"), "of a key that has left the queue, and is new")
	})
}

func TestGroupOfAdditionReplacesConfigGroup(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{Group: byLetter}))
	q.Add("a1")
	q.AddWith("a2", by("z"))
	q.Add("a3")
	assert.Equal(t, "a", infoOf(q, "a1").Group)
	assert.Equal(t, "z", infoOf(q, "a2").Group)
	require.Equal(t, []string{"a1", "a2", "a3"}, takeAll(q))
	require.NoError(t, q.CheckInvariants())
	limited := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: 1}))
	assert.PanicsWithValue(t, "workqueue: AddWith: Group cannot be set together with Config.GroupLimit", func() { limited.AddWith("a", by("z")) })
	assert.Zero(t, limited.Len())
}

// Random additions with groups and priorities break no invariant, lose no key, and leave no memory behind.
func TestRandomGroupsOfAdditions(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			cfg := workqueue.Config[string]{MaxAttempts: 2, Timestamps: seed%2 == 0}
			if seed%3 == 0 {
				cfg.Group = byLetter
			}
			q := must(workqueue.New(cfg))
			added, inProcess := map[string]bool{}, []string{}
			for range 200 {
				key := string(rune('a' + random.IntN(12)))
				opts := workqueue.AddOptions{Group: []string{"", "x", "y", "z"}[random.IntN(4)], Priority: random.IntN(3) - 1}
				switch random.IntN(8) {
				case 0, 1, 2:
					q.AddWith(key, opts)
					added[key] = true
				case 3:
					opts.After = time.Duration(random.IntN(3)) * time.Second
					q.AddWith(key, opts)
					added[key] = true
				case 4, 5:
					if key, ok := tryGet(q); ok {
						delete(added, key)
						inProcess = append(inProcess, key)
					}
				case 6:
					if len(inProcess) > 0 {
						key := inProcess[0]
						inProcess = inProcess[1:]
						if opts.RateLimited = random.IntN(2) == 0; opts.RateLimited {
							if q.AddWith(key, opts) {
								added[key] = true
							}
						} else {
							q.Forget(key)
						}
						q.Done(key)
					}
				case 7:
					time.Sleep(time.Second)
				}
				require.NoError(t, q.CheckInvariants(), "seed %d", seed)
			}
			for _, key := range inProcess {
				q.Done(key)
			}
			time.Sleep(time.Hour)
			for _, key := range finishAll(q) {
				delete(added, key)
			}
			for key := range added {
				assert.Equal(t, workqueue.Parked, infoOf(q, key).State, "seed %d: %s is lost", seed, key)
			}
			require.NoError(t, q.CheckInvariants(), "seed %d", seed)
		})
	}
}

// Each Done of a group at its limit unblocks one more worker, even if several Dones come before the first worker wakes up.
func TestEachFreedGroupSlotWakesItsOwnWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: 3}))
		for i := range 9 {
			q.Add(fmt.Sprint("a", i))
		}
		first := takeAll(q)
		require.Len(t, first, 3)
		got := make(chan string, 9)
		for range 4 {
			go func() {
				k, _ := q.Get()
				got <- k
			}()
		}
		synctest.Wait()
		require.Empty(t, got)
		for _, k := range first {
			q.Done(k)
		}
		synctest.Wait()
		require.Len(t, got, 3)
		require.True(t, q.Cancel("a6"))
		q.Done(<-got)
		synctest.Wait()
		require.Len(t, got, 3, "the fourth worker got the last place")
		require.NoError(t, q.CheckInvariants())
		q.ShutDown()
	})
}

func TestGroupLimitHoldsUnderLoad(t *testing.T) {
	const limit = 2
	q := must(workqueue.New(workqueue.Config[string]{Group: byLetter, GroupLimit: limit}))
	var working [3]atomic.Int32
	var done atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for k, shutdown := q.Get(); !shutdown; k, shutdown = q.Get() {
				assert.LessOrEqual(t, working[k[0]-'a'].Add(1), int32(limit))
				done.Add(1)
				working[k[0]-'a'].Add(-1)
				q.Done(k)
			}
		})
	}
	for i := range 3000 {
		q.AddWith(fmt.Sprintf("%c%d", 'a'+i%3, i), prio(i%5))
	}
	require.NoError(t, q.Drain(t.Context()))
	wg.Wait()
	require.EqualValues(t, 3000, done.Load())
	require.NoError(t, q.CheckInvariants())
}

func TestMemoryOfGroupsAndRaisedKeysIsReleased(t *testing.T) {
	for _, group := range []func(int) string{nil, func(k int) string { return fmt.Sprint(k) }} {
		q := must(workqueue.New(workqueue.Config[int]{Group: group}))
		for i := range 30_000 {
			q.AddWith(i, prio(i%3))
		}
		for i := range 10_000 { // each in its own group
			q.AddWith(3*i, prio(2))
		}
		require.GreaterOrEqual(t, q.Kept(), 30_000)
		for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
			q.Done(k)
		}
		require.LessOrEqual(t, q.Kept(), 4096)
		require.NoError(t, q.CheckInvariants())
	}
}
