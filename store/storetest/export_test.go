package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Failures runs every case with a database of its own and returns the names of those that fail, with what they said.
func Failures(t *testing.T, open func() Database) map[string]string {
	failed := map[string]string{}
	for _, c := range cases() {
		if message := try(t, c, open()); message != "" {
			failed[c.name] = message
		}
	}
	return failed
}

// Failure runs the case of this name and returns what it failed with.
func Failure(t *testing.T, name string, db Database) string {
	for _, c := range cases() {
		if c.name == name {
			return try(t, c, db)
		}
	}
	t.Fatalf("there is no case %q", name)
	return ""
}

// try runs one case and returns what it failed with.
func try(t *testing.T, c testCase, db Database) string {
	ctx, cancel := context.WithCancel(context.Background())
	r := &recorder{TB: t, ctx: ctx}
	done := make(chan struct{})
	go func() { // runs the case, which Fatalf ends with its goroutine; try waits for it
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.fail(fmt.Sprint("panic: ", p))
			}
		}()
		c.run(r, db)
	}()
	<-done
	cancel()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.message
}

// recorder is a testing.TB that keeps its failures to itself.
type recorder struct {
	testing.TB
	ctx context.Context

	mu sync.Mutex // guards the following

	message  string
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

func (r *recorder) Skip(...any) { runtime.Goexit() }

func (r *recorder) fail(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.message == "" {
		r.message = message
	}
}
