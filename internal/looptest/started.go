package looptest

import (
	"bytes"
	"context"
	"crypto/rand"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
)

// Started counts the goroutines that the caller's goroutine starts from now on, and those that they start in turn. The
// function that it returns says how many of them have not ended. Unlike runtime.NumGoroutine, it leaves out goroutines of
// other tests.
//
// A goroutine inherits the profiler labels of the goroutine that starts it, and Started counts those with its label. So it
// misses the goroutines of code that replaces all labels.
func Started(t testing.TB) func() int {
	label := rand.Text()
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("looptest", label)))
	return func() int {
		t.Helper()
		var profile bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Fatalf("looptest: profile of the goroutines: %v", err)
		}
		_, groups, _ := strings.Cut(profile.String(), "\n") // without "goroutine profile: total 7"
		count := -1                                         // without the caller
		// Goroutines with the same stack and labels are one paragraph: "3 @ 0x4f 0x4e", then `# labels: {"looptest":"..."}`.
		for group := range strings.SplitSeq(groups, "\n\n") {
			if !strings.Contains(group, label) {
				continue
			}
			head, _, _ := strings.Cut(group, " @")
			n, err := strconv.Atoi(head)
			if err != nil {
				t.Fatalf("looptest: profile of the goroutines: %q: %v", group, err)
			}
			count += n
		}
		return count
	}
}
