package workqueue_test

import (
	"fmt"
	"log/slog"
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

// The test reads the tables in the documentation of Queue and plays each cell on a queue.
func TestEveryCellOfTheContractTablesHolds(t *testing.T) {
	const (
		wait  = 100 * time.Millisecond // of the wake-ups that the states bring with them
		later = 200 * time.Millisecond // of the backoffs
	)
	type queue = *workqueue.Queue[string]

	states := map[string]func(queue){
		"absent":  func(queue) {},
		"ready":   func(q queue) { q.Add("k") },
		"process": func(q queue) { q.Add("k"); tryGet(q) },
		"dirty":   func(q queue) { q.Add("k"); tryGet(q); q.Add("k") },
		"parked":  func(q queue) { q.Add("k"); tryGet(q); q.AddRateLimited("k"); q.Done("k") },
	}
	backoff := func(q queue, d time.Duration) {
		q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: d})
	}
	// What a call reports besides the state: "reported", or that it has done nothing.
	calls := []struct {
		column string
		name   string
		do     func(q queue, limiter *countingLimiter[string], log *strings.Builder) string
	}{
		{"Add", "", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string { q.Add("k"); return "" }},
		{"Add", "AddAfter of no time", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string { q.AddAfter("k", 0); return "" }},
		{"AddAfter(t)", "", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string {
			q.AddAfter("k", wait/2)
			return ""
		}},
		{"AddRateLimited", "", func(q queue, limiter *countingLimiter[string], _ *strings.Builder) string {
			limiter.d = wait / 2
			q.AddRateLimited("k")
			return ""
		}},
		{"AddRateLimited", "with After", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string { backoff(q, wait/2); return "" }},
		{"AddRateLimited", "with At", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string {
			q.AddWith("k", workqueue.AddOptions{RateLimited: true, At: time.Now().Add(wait / 2)})
			return ""
		}},
		{"wake-up due", "", func(queue, *countingLimiter[string], *strings.Builder) string { sleep(wait); return "" }},
		{"backoff due", "", func(queue, *countingLimiter[string], *strings.Builder) string { sleep(later); return "" }},
		{"Take", "", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string {
			_, ok := tryGet(q)
			return fmt.Sprint(ok)
		}},
		{"Done", "", func(q queue, _ *countingLimiter[string], log *strings.Builder) string {
			q.Done("k")
			if log.Len() > 0 {
				return "reported"
			}
			return ""
		}},
		{"Forget", "", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string { q.Forget("k"); return "" }},
		{"Cancel", "", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string { return fmt.Sprint(q.Cancel("k")) }},
		{"DropParked", "", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string {
			return fmt.Sprint(q.DropParked("k"))
		}},
		{"ShutDown", "", func(q queue, _ *countingLimiter[string], _ *strings.Builder) string { q.ShutDown(); return "" }},
	}

	tables := contractTables(t)
	require.Len(t, tables, 14)
	played := map[string]bool{}
	for state, cells := range tables {
		for _, call := range calls {
			want, ok := cells[call.column]
			require.True(t, ok, "%s/%s", state, call.column)
			played[call.column] = true
			base, scheduled, _ := strings.Cut(state, "+")
			hasWakeUp, hasBackoff := strings.Contains(scheduled, "d"), strings.Contains(scheduled, "b")
			if call.column == "wake-up due" && !hasWakeUp || call.column == "backoff due" && !hasBackoff {
				require.Equal(t, "-", want)
				continue
			}
			t.Run(fmt.Sprintf("%s/%s %s", state, call.column, call.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log strings.Builder
					limiter := &countingLimiter[string]{d: wait}
					cfg := workqueue.Config[string]{RateLimiter: limiter, Logger: slog.New(slog.NewTextHandler(&log, nil))}
					if base == "parked" {
						cfg.MaxAttempts = 1
					}
					wakeUpIn, backoffIn := wait, later
					if call.column == "backoff due" {
						wakeUpIn = 3 * wait
					}
					q := must(workqueue.New(cfg))
					states[base](q)
					if hasWakeUp {
						q.AddAfter("k", wakeUpIn)
					}
					if hasBackoff {
						backoff(q, backoffIn)
					}
					begin := time.Now()
					got := call.do(q, limiter, &log)
					passed := time.Since(begin)
					require.NoError(t, q.CheckInvariants())

					if call.column == "AddAfter(t)" {
						wakeUpIn = wait / 2
					}
					if call.column == "AddRateLimited" {
						backoffIn = wait / 2
					}
					switch want {
					case "reported":
						assert.Equal(t, "reported", got)
						want = state
					case "-":
						assert.NotEqual(t, "true", got)
						want = state
					case "earlier of":
						want = state
					default:
						assert.NotEqual(t, "false", got)
						assert.NotEqual(t, "reported", got)
					}
					base, scheduled, _ := strings.Cut(want, "+")
					assert.Equal(t, base, stateOf(q))
					if !strings.Contains(scheduled, "d") {
						wakeUpIn = passed
					}
					if !strings.Contains(scheduled, "b") {
						backoffIn = passed
					}
					assertDeadlines(t, q, wakeUpIn-passed, backoffIn-passed)
					q.ShutDown()
				})
			})
		}
	}
	for _, cells := range tables {
		for column := range cells {
			require.True(t, played[column], column)
		}
	}
}

// assertDeadlines checks that the only key has a wake-up and a backoff in these times; 0 is none.
func assertDeadlines(t *testing.T, q *workqueue.Queue[string], wakeUp, backoff time.Duration) {
	t.Helper()
	switch {
	case wakeUp == 0 && backoff == 0:
		assert.Zero(t, q.Stats().Delayed)
		return
	case wakeUp == 0 || backoff == 0:
		assert.Equal(t, max(wakeUp, backoff), scheduledIn(q))
	default:
		assert.Equal(t, min(wakeUp, backoff), scheduledIn(q))
	}
	q.Forget("k") // ends a backoff
	if wakeUp == 0 {
		assert.Zero(t, q.Stats().Delayed)
	} else {
		assert.Equal(t, wakeUp, scheduledIn(q))
	}
}

// stateOf names the state of the only key, without its deadlines.
func stateOf(q *workqueue.Queue[string]) string {
	s := q.Stats()
	switch {
	case s.Parked > 0:
		return "parked"
	case s.Dirty > 0:
		return "dirty"
	case s.InProcess > 0:
		return "process"
	case s.Ready > 0:
		return "ready"
	default:
		return "absent"
	}
}

// contractTables returns the cells of the tables in the documentation of Queue, by state and column.
func contractTables(t *testing.T) map[string]map[string]string {
	src, err := os.ReadFile("queue.go")
	require.NoError(t, err)
	tables := map[string]map[string]string{}
	var columns []string
	var starts []int
	for line := range strings.Lines(string(src)) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		switch {
		case !ok:
			columns = nil
		case strings.HasPrefix(line, "state "):
			starts, columns = nil, nil
			for i := range line {
				if line[i] != ' ' && (i == 0 || strings.HasSuffix(line[:i], "  ")) {
					starts = append(starts, i)
				}
			}
			columns = cellsOf(line, starts)
		case columns != nil && !strings.HasPrefix(line, "---"):
			cells := cellsOf(line, starts)
			if tables[cells[0]] == nil {
				tables[cells[0]] = map[string]string{}
			}
			for i, column := range columns[1:] {
				require.NotEmpty(t, cells[i+1], line)
				tables[cells[0]][column] = cells[i+1]
			}
		}
	}
	for _, cells := range tables {
		require.Len(t, cells, 11)
	}
	return tables
}

// cellsOf cuts a line of a table.
func cellsOf(line string, starts []int) (cells []string) {
	for i, from := range starts {
		to := len(line)
		if i+1 < len(starts) {
			to = starts[i+1]
		}
		cells = append(cells, strings.TrimSpace(line[from:to]))
	}
	return cells
}

// The test reads the table in the documentation of AddRateLimited and plays each row.
func TestEveryRowOfTheCountTableHolds(t *testing.T) {
	const delay = 100 * time.Millisecond // that the limiter chooses, the second time a different one
	rows := map[string]struct {
		before func(t *testing.T, q *workqueue.Queue[string])
		opts   workqueue.AddOptions
		next   time.Duration // of the limiter
	}{
		"first, or after the latest backoff": {before: func(t *testing.T, q *workqueue.Queue[string]) {
			fail(t, q)
			sleep(delay)
			q.TryTake()
		}, next: 2 * delay},
		"before the end of the latest one":   {before: func(t *testing.T, q *workqueue.Queue[string]) { fail(t, q); sleep(delay / 4) }, next: 2 * delay},
		"before it, with a delay of its own": {before: func(t *testing.T, q *workqueue.Queue[string]) { fail(t, q); sleep(delay / 4) }, opts: workqueue.AddOptions{After: 3 * delay, Replace: true}},
		"while the key is parked": {before: func(t *testing.T, q *workqueue.Queue[string]) {
			q.TryTake()
			q.Park("k", "")
			q.Done("k")
		}},
		"an attempt that an event has brought": {before: func(t *testing.T, q *workqueue.Queue[string]) { fail(t, q); sleep(delay / 4); q.Add("k"); q.TryTake() }, next: 2 * delay},
	}
	cells := map[string][]string{}
	for line := range strings.Lines(string(must(os.ReadFile("failures.go")))) {
		if fields := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(strings.TrimPrefix(line, "//")), -1); len(fields) == 5 {
			cells[fields[0]] = fields[1:]
		}
	}
	cells["an attempt that an event has brought"] = cells["before the end of the latest one"]
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := &countingLimiter[string]{d: delay}
				q := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiter}))
				q.Add("k")
				row.before(t, q)
				info, _ := q.Info("k")
				requeues, whens, latest := q.NumRequeues("k"), limiter.whens, time.Until(info.BackoffUntil)
				limiter.d, row.opts.RateLimited = row.next, true
				q.AddWith("k", row.opts)
				after, _ := q.Info("k")
				change := map[bool]string{true: "+1", false: "same"}
				got := []string{
					change[after.Failures > info.Failures], change[q.NumRequeues("k") > requeues],
					map[bool]string{true: "asked", false: "not asked"}[limiter.whens > whens],
				}
				require.Len(t, cells[name], 4, "there is no such row")
				assert.Equal(t, cells[name][:3], got)
				switch until := time.Until(after.Next); cells[name][3] {
				case "after its delay":
					assert.Equal(t, row.next, until)
				case "at that end, or after its delay if that is earlier":
					assert.Equal(t, latest, until)
					limiter.d = 1
					q.AddRateLimited("k")
					assert.EqualValues(t, 1, scheduledIn(q))
				case "the same, or after its delay with AddOptions.Replace":
					assert.Equal(t, row.opts.After, until)
				case "never":
					assert.Zero(t, after.Next)
				default:
					t.Error("no such cell: " + cells[name][3])
				}
			})
		})
		delete(cells, name)
	}
	delete(cells, "the failure comes")
	delete(cells, "-----------------")
	assert.Empty(t, cells, "these rows are not played")
}
