package informertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Failures runs every case with a source of its own, and returns the names of those that fail, with what they said first,
// and the number of those that were skipped.
func Failures[T any](t *testing.T, open func() Subject[T]) (failed map[string]string, skipped int) {
	return FailuresOf(t, "", open)
}

// FailuresOf is Failures of the case with a name, or of all cases if the name is empty.
func FailuresOf[T any](t *testing.T, name string, open func() Subject[T]) (failed map[string]string, skipped int) {
	failed = map[string]string{}
	for _, c := range cases[T]() {
		if name != "" && c.name != name {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		r := &recorder{TB: t, ctx: ctx}
		r.call(func() { c.run(r, open()) })
		for _, f := range slices.Backward(r.cleanups) {
			r.call(f)
		}
		cancel()
		if r.skipped {
			skipped++
		}
		if r.message != "" {
			failed[c.name] = r.message
		}
	}
	return failed, skipped
}

// recorder is a testing.TB that keeps its failures to itself.
type recorder struct {
	testing.TB
	ctx context.Context

	mu sync.Mutex // guards the following

	message  string
	skipped  bool
	cleanups []func()
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Skip(...any) {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) fail(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.message == "" {
		r.message = message
	}
}

// call runs f in a goroutine that Fatalf may end, and waits for it.
func (r *recorder) call(f func()) {
	done := make(chan struct{})
	go func() { // ends with f; call waits for it
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.fail(fmt.Sprint("panic: ", p))
			}
		}()
		f()
	}()
	<-done
}
