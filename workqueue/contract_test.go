package workqueue_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

var discard = slog.New(slog.DiscardHandler)

// The table of the package documentation, read from the documentation itself: each cell is played on a queue.
func TestEveryCellOfTheContractTableHolds(t *testing.T) {
	const wait = 100 * time.Millisecond // of the wake-ups that the states bring with them
	type queue = *workqueue.Queue[string]

	states := map[string]func(queue){
		"absent":  func(queue) {},
		"ready":   func(q queue) { q.Add("k") },
		"process": func(q queue) { q.Add("k"); q.TryGet() },
		"dirty":   func(q queue) { q.Add("k"); q.TryGet(); q.Add("k") },
		"parked":  func(q queue) { q.Add("k"); q.TryGet(); q.AddRateLimited("k"); q.Done("k") },
	}
	calls := []struct {
		name   string
		column int
		do     func(q queue, log *strings.Builder) string // what the cell means beside the state
	}{
		{"Add", 1, func(q queue, _ *strings.Builder) string { q.Add("k"); return "" }},
		{"AddAfter(t)", 2, func(q queue, _ *strings.Builder) string { q.AddAfter("k", wait/2); return "" }},
		{"AddRateLimited", 3, func(q queue, _ *strings.Builder) string { q.AddRateLimited("k"); return "" }},
		{"RateLimited, After", 3, func(q queue, _ *strings.Builder) string {
			q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: wait / 2})
			return ""
		}},
		{"RateLimited, At", 3, func(q queue, _ *strings.Builder) string {
			q.AddWith("k", workqueue.AddOptions{RateLimited: true, At: time.Now().Add(wait / 2)})
			return ""
		}},
		{"handed out", 4, func(q queue, _ *strings.Builder) string { q.TryGet(); return "" }},
		{"Done", 5, func(q queue, log *strings.Builder) string {
			q.Done("k")
			if log.Len() > 0 {
				return "reported"
			}
			return ""
		}},
		{"due", 6, func(q queue, _ *strings.Builder) string { time.Sleep(wait); synctest.Wait(); return "" }},
		{"Cancel", 7, func(q queue, _ *strings.Builder) string {
			before := q.Stats()
			before.Remembered = 0
			cancelled := q.Cancel("k")
			after := q.Stats()
			after.Remembered = 0
			assert.Equal(t, before != after, cancelled)
			return ""
		}},
		{"ShutDown", 8, func(q queue, _ *strings.Builder) string { q.ShutDown(); return "" }},
	}

	rows := contractTable(t)
	require.Len(t, rows, 14)
	for _, row := range rows {
		state := row[0]
		for _, call := range calls {
			cell := row[call.column]
			t.Run(state+"/"+call.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log strings.Builder
					limiter := &settableLimiter{d: wait}
					base, scheduled, _ := strings.Cut(state, "+")
					cfg := workqueue.Config[string]{RateLimiter: limiter, Logger: slog.New(slog.NewTextHandler(&log, nil))}
					if base == "parked" {
						cfg.MaxAttempts = 1
					}
					q := must(workqueue.New(cfg))
					states[base](q)
					switch scheduled {
					case "d":
						q.AddAfter("k", wait)
					case "b":
						q.AddRateLimited("k")
					}
					require.Equal(t, state, stateOf(q, scheduled), "the state to begin with")

					limiter.d = wait / 2
					got := call.do(q, &log)
					switch want := cell; {
					case want == "reported":
						assert.Equal(t, "reported", got)
						assert.Equal(t, state, stateOf(q, scheduled))
					case want == "-":
						assert.Empty(t, got)
						assert.Equal(t, state, stateOf(q, scheduled))
					case want == "earlier of":
						// It moved from wait to wait/2, and has become of the new kind.
						kind := map[int]string{2: "d", 3: "b"}[call.column]
						assert.Equal(t, base+"+"+kind, stateOf(q, kind))
						assertDueAfter(t, q, wait/2)
					default:
						_, kind, _ := strings.Cut(want, "+")
						assert.Equal(t, want, stateOf(q, kind))
					}
					require.NoError(t, q.CheckInvariants())
					q.ShutDown()
				})
			})
		}
	}
}

// A later wake-up never moves an earlier one, of whichever kinds they are.
func TestTheEarlierOfTwoWakeUpsCounts(t *testing.T) {
	add := map[string]func(*workqueue.Queue[string], *settableLimiter, time.Duration){
		"AddAfter":       func(q *workqueue.Queue[string], _ *settableLimiter, d time.Duration) { q.AddAfter("k", d) },
		"AddRateLimited": func(q *workqueue.Queue[string], l *settableLimiter, d time.Duration) { l.d = d; q.AddRateLimited("k") },
	}
	for first, addFirst := range add {
		for second, addSecond := range add {
			t.Run(first+" then "+second, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := &settableLimiter{}
					q := must(workqueue.New(workqueue.Config[string]{RateLimiter: l}))
					addFirst(q, l, time.Second)
					addSecond(q, l, time.Minute)
					assertDueAfter(t, q, time.Second)
					require.Equal(t, 1, q.Len())
					require.Zero(t, q.Stats().Delayed)
				})
			})
		}
	}
}

type settableLimiter struct{ d time.Duration }

func (l *settableLimiter) When(string) time.Duration { return l.d }
func (*settableLimiter) Forget(string)               {}
func (*settableLimiter) NumRequeues(string) int      { return 0 }

// stateOf names the state of the only key. The kind of a wake-up cannot be seen, so that it is told: TestABackoffIs...
// and the cells of "handed out" tell them apart.
func stateOf(q *workqueue.Queue[string], kind string) string {
	s := q.Stats()
	name := "absent"
	switch {
	case s.Parked > 0:
		name = "parked"
	case s.Dirty > 0:
		name = "dirty"
	case s.InProcess > 0:
		name = "process"
	case s.Ready > 0:
		name = "ready"
	}
	if s.Delayed > 0 {
		name += "+" + kind
	}
	return name
}

func assertDueAfter(t *testing.T, q *workqueue.Queue[string], d time.Duration) {
	t.Helper()
	time.Sleep(d - 1)
	synctest.Wait()
	before := q.Stats().Delayed
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	assert.Equal(t, 1, before, "a nanosecond before it is due")
	assert.Zero(t, q.Stats().Delayed, "when it is due")
}

// contractTable returns the rows of the table in doc.go.
func contractTable(t *testing.T) [][]string {
	src, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(src), "//\t-----")
	require.True(t, ok)
	header, _, _ := strings.Cut(string(src), "//\t-----")
	header = header[strings.LastIndex(header, "//\tstate"):]
	var starts []int
	for i, r := range header {
		if r != ' ' && r != '\n' && i > 2 && (strings.HasSuffix(header[:i], "  ") || header[i-1] == '\t') {
			starts = append(starts, i-3)
		}
	}
	var rows [][]string
	for line := range strings.Lines(table[strings.Index(table, "\n")+1:]) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		if !ok {
			break
		}
		var row []string
		for i, from := range starts {
			to := len(line)
			if i+1 < len(starts) {
				to = starts[i+1]
			}
			row = append(row, strings.TrimSpace(line[from:to]))
		}
		require.Len(t, row, 9, line)
		rows = append(rows, row)
	}
	return rows
}
