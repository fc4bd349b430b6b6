package dbtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// Failure runs a case of a conformance suite, and returns what it has failed with first, or "" if it has passed or was skipped. With it, a
// test shows that the suite notices a broken variant of a source or a store. The cleanups of the case run before Failure returns.
func Failure(t testing.TB, run func(t testing.TB)) string {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	return failure(ctx, cancel, t, run)
}

// FailureWithin is Failure for a case whose context ends after a time, because a watch that misses a change is silent.
func FailureWithin(t testing.TB, limit time.Duration, run func(t testing.TB)) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	return failure(ctx, cancel, t, run)
}

func failure(ctx context.Context, cancel context.CancelFunc, t testing.TB, run func(t testing.TB)) string {
	defer cancel()
	r := &recorder{TB: t, ctx: ctx}
	r.call(func() { run(r) })
	cancel() // as the context of a test ends before its cleanups
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		f := r.cleanups[last]
		r.cleanups = slices.Delete(r.cleanups, last, last+1)
		r.call(f)
	}
	return r.message
}

// recorder is a testing.TB that keeps its failures to itself.
type recorder struct {
	testing.TB
	ctx context.Context

	mu sync.Mutex
	// mu guards the following.
	message  string
	cleanups []func()
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}
func (r *recorder) Failed() bool             { r.mu.Lock(); defer r.mu.Unlock(); return r.message != "" }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) FailNow()                          { r.fail("FailNow"); runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Skip(...any)          { runtime.Goexit() }
func (r *recorder) Skipf(string, ...any) { runtime.Goexit() }
func (r *recorder) SkipNow()             { runtime.Goexit() }

func (r *recorder) fail(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.message == "" {
		r.message = message
	}
}

// call runs f in a goroutine that a failure may end, and waits for it. A panic is a failure.
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
