package workqueue_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// The test reads the table in the documentation of AddOptions.Priority and plays each cell, with lower and higher priorities.
func TestEveryCellOfThePriorityTableHolds(t *testing.T) {
	type queue = *workqueue.Queue[string]
	take := func(q queue) { _, ok := q.TryTake(); require.True(t, ok) }
	// What brings a key of priority p into each state.
	states := map[string]map[string]func(q queue, p int){
		"absent, without a deadline": {
			"new": func(queue, int) {},
			"remembered": func(q queue, p int) {
				q.AddWith("k", prio(p))
				take(q)
				q.AddRateLimited("k")
				q.Done("k")
				q.Cancel("k")
			},
		},
		"absent with one, ready, or parked": {
			"wake-up": func(q queue, p int) {
				q.AddWith("k", workqueue.AddOptions{After: time.Hour, Priority: p, PrioritySet: true})
			},
			"backoff": func(q queue, p int) { q.AddWith("k", prio(p)); take(q); q.AddRateLimited("k"); q.Done("k") },
			"ready":   func(q queue, p int) { q.AddWith("k", prio(p)) },
			"parked":  func(q queue, p int) { q.AddWith("k", prio(p)); take(q); q.Park("k", ""); q.Done("k") },
		},
		"process, not added since": {
			"process": func(q queue, p int) { q.AddWith("k", prio(p)); take(q) },
			"process+d": func(q queue, p int) {
				q.AddWith("k", workqueue.AddOptions{After: time.Hour, Priority: p, PrioritySet: true})
				q.AddWith("k", prio(p))
				take(q)
			},
			"process+b": func(q queue, p int) { q.AddWith("k", prio(p)); take(q); q.AddRateLimited("k") },
		},
		"process, added since, or dirty": {
			"dirty": func(q queue, p int) { q.AddWith("k", prio(p)); take(q); q.AddWith("k", prio(p)) },
			"wake-up": func(q queue, p int) {
				q.AddWith("k", prio(p))
				take(q)
				q.AddWith("k", workqueue.AddOptions{After: time.Hour, Priority: p, PrioritySet: true})
			},
			"wake-up due": func(q queue, p int) { q.AddWith("k", prio(p)); take(q); q.AddAfter("k", 1); sleep(1) },
		},
	}
	columns := map[string][]workqueue.AddOptions{
		"Add, or a priority p": {{}, {After: -1}},
		"a delay without p":    {{After: time.Hour}, {At: time.Now().AddDate(100, 0, 0)}, {RateLimited: true}, {RateLimited: true, After: time.Hour}},
		"a delay with p":       {{After: time.Hour}, {RateLimited: true}, {RateLimited: true, After: time.Hour}},
		"p and PrioritySet":    {{PrioritySet: true}, {PrioritySet: true, After: time.Hour}, {PrioritySet: true, RateLimited: true}},
	}
	priorities := []int{-100, 0, 10, 99}

	rows := map[string][]string{}
	for line := range strings.Lines(string(must(os.ReadFile("add.go")))) {
		fields := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "//")), -1)
		if len(fields) == 5 && !strings.HasPrefix(fields[0], "-") {
			rows[fields[0]] = fields[1:]
		}
	}
	heads := rows["state of the key"]
	delete(rows, "state of the key")
	require.Len(t, rows, len(states))
	require.Len(t, heads, len(columns))
	for row, cells := range rows {
		for i, cell := range cells {
			for state, begin := range states[row] {
				for _, old := range priorities {
					for _, p := range priorities {
						for _, opts := range columns[heads[i]] {
							switch heads[i] {
							case "a delay without p":
								p = 0
							case "a delay with p":
								if p == 0 {
									continue
								}
							}
							if state == "parked" && opts.RateLimited {
								continue // does nothing at all
							}
							opts.Priority = p
							t.Run(fmt.Sprintf("%s/%s/%d, then %+v", heads[i], state, old, opts), func(t *testing.T) {
								synctest.Test(t, func(t *testing.T) {
									q := must(workqueue.New(workqueue.Config[string]{}))
									defer q.ShutDown()
									begin(q, old)
									q.AddWith("k", opts)
									info, _ := q.Info("k")
									want := map[string]int{"p": p, "0": 0, "same": old, "the higher": max(old, p)}
									require.Contains(t, want, cell)
									assert.Equal(t, want[cell], info.Priority)
									require.NoError(t, q.CheckInvariants())
								})
							})
						}
					}
				}
			}
		}
	}
}

// A controller that lists everything at a low priority can leave it, and a key that was urgent once can stop being so.
func TestWorkCanSetThePriorityOfTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{}))
		for _, old := range []int{-100, 10} {
			q.AddWith("k", prio(old))
			item, _ := q.TryTake()
			require.Equal(t, old, item.Priority)
			q.AddWith("k", workqueue.AddOptions{After: time.Second, PrioritySet: true})
			item.Done()
			sleep(time.Second)
			item, _ = q.TryTake()
			assert.Zero(t, item.Priority)
			item.Done()
		}
	})
}
