package sitetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// Site is an object. Rev is unique; Life is the Rev of the creation.
type Site struct {
	Name      string
	Life, Rev int
}

// NameOf returns the key of s.
func NameOf(s Site) string { return s.Name }

// Start runs in until stop is called, or the test ends. It must be called in a bubble.
func Start(t *testing.T, in *informer.Informer[string, Site]) (stop func()) {
	t.Helper()
	r := looptest.Start(t, in.Run)
	stop = sync.OnceFunc(func() {
		if err := r.Stop(); err != nil {
			t.Errorf("Run of the informer returns %v", err)
		}
	})
	t.Cleanup(stop)
	synctest.Wait()
	return stop
}

// Watch sends what a watch yields until its context ends.
func Watch(t *testing.T, ctx context.Context, src informer.ListWatcher[Site], after informer.Version) <-chan string {
	events := make(chan string, 100)
	done := make(chan struct{})
	go func() { // ends with ctx; the cleanup waits for it
		defer close(done)
		for ev, err := range src.Watch(ctx, after) {
			if err != nil {
				events <- err.Error()
			} else {
				events <- fmt.Sprintf("%d %v %s.%d", ev.Version, ev.Type, ev.Object.Name, ev.Object.Rev)
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return events
}

// All returns the content of a channel, once every goroutine of the bubble is blocked.
func All(events <-chan string) (all []string) {
	synctest.Wait()
	for len(events) > 0 {
		all = append(all, <-events)
	}
	return all
}

// Errors collects the errors passed to OnError.
type Errors struct{ log looptest.Log[error] }

// Add appends err.
func (e *Errors) Add(err error) { e.log.Add(err) }

// Take returns the errors since the last Take, once every goroutine of the bubble is blocked.
func (e *Errors) Take() []error {
	synctest.Wait()
	return e.log.Take()
}
