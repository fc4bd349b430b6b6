package looptest

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// Stacks returns the stacks of the goroutines in the bubble of the caller, that of the caller first. Unlike
// runtime.NumGoroutine, it leaves out goroutines that have just ended, and those of other tests.
func Stacks(t testing.TB) (stacks []string) {
	t.Helper()
	dump := make([]byte, 1<<16)
	n := runtime.Stack(dump, true)
	for n == len(dump) {
		dump = make([]byte, 2*n)
		n = runtime.Stack(dump, true)
	}
	bubble := ""
	for stack := range strings.SplitSeq(string(dump[:n]), "\n\n") {
		head, _, _ := strings.Cut(stack, "\n") // "goroutine 7 [running, synctest bubble 3]:"
		_, number, found := strings.Cut(head, "synctest bubble ")
		switch {
		case stacks == nil && !found:
			t.Fatalf("looptest: called outside of a bubble: %s", head)
		case stacks == nil:
			bubble = number
		case number != bubble:
			continue // of another test
		}
		stacks = append(stacks, stack)
	}
	return stacks
}

// NoGoroutines fails the test if a goroutine of one of the packages, such as "controller", is left in its bubble, except the
// caller.
func NoGoroutines(t testing.TB, packages ...string) {
	t.Helper()
	synctest.Wait()
	for _, stack := range Stacks(t)[1:] { // without the caller
		for _, pkg := range packages {
			if strings.Contains(stack, "github.com/setpoint-go/setpoint/"+pkg+".") {
				t.Errorf("a goroutine of package %s is leaked:\n%s", pkg, stack)
			}
		}
	}
}
