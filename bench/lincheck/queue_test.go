package lincheck_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// histories is the default number of checked histories for each configuration.
const histories = 500

// configurations are of queues that differ in order, but not in the promises for one key.
var configurations = []struct {
	name string
	cfg  workqueue.Config[int]
}{
	{"first in, first out", workqueue.Config[int]{}},
	{"in groups, with timestamps", workqueue.Config[int]{
		Group:      func(key int) string { return string(rune('a' + key%2)) },
		Timestamps: true,
	}},
}

func TestEveryQueueHistoryIsLinearizable(t *testing.T) {
	var longer time.Duration
	if text := os.Getenv("LINCHECK_TIME"); text != "" {
		all, err := time.ParseDuration(text)
		require.NoError(t, err, "LINCHECK_TIME")
		longer = all / time.Duration(len(configurations))
	}
	for _, c := range configurations {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			seed := uint64(0)
			for ; seed < histories || time.Since(start) < longer; seed++ {
				history := record(t, seed, func() queue { return must(workqueue.New(c.cfg)) })
				if result := check(history); result != porcupine.Ok {
					t.Fatalf("seed %d: %s\n%s", seed, result, tell(history))
				}
			}
			t.Logf("%d histories in %v", seed, time.Since(start))
		})
	}
}

// check gives up after a time that is far longer than these histories need.
func check(history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(), history, time.Minute)
}

// tell writes the history of each key that is not linearizable.
func tell(history []porcupine.Operation) string {
	var b strings.Builder
	for _, part := range model().Partition(history) {
		if check(part) == porcupine.Ok {
			continue
		}
		for _, o := range part {
			b.WriteString(describe(o) + "\n")
		}
		b.WriteString("\n")
	}
	return b.String()
}
