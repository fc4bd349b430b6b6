package poll_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

var errOutage = errors.New("no route to host")

// site is an object. Rev is unique; Life is the Rev of the creation.
type site struct {
	Name      string
	Life, Rev int
}

func nameOf(s site) string { return s.Name }

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// start runs in until stop is called, or the test ends. It must be called in a bubble.
func start(t *testing.T, in *informer.Informer[string, site]) (stop func()) {
	t.Helper()
	return looptest.StartInBubble(t, in.Run)
}

// watch sends what a watch yields until its context ends.
func watch(t *testing.T, ctx context.Context, src informer.ListWatcher[site], after informer.Version) <-chan string {
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

// errorLog collects the errors passed to OnError.
type errorLog struct{ looptest.Log[error] }

// Take returns the errors since the last Take, once every goroutine of the bubble is blocked.
func (e *errorLog) Take() []error {
	synctest.Wait()
	return e.Log.Take()
}

// spy counts the calls of a source by an informer.
type spy struct {
	informer.ListWatcher[site]
	mu             sync.Mutex
	lists, watches int
}

func (s *spy) List(ctx context.Context) (informer.List[site], error) {
	s.mu.Lock()
	s.lists++
	s.mu.Unlock()
	return s.ListWatcher.List(ctx)
}

func (s *spy) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	s.mu.Lock()
	s.watches++
	s.mu.Unlock()
	return s.ListWatcher.Watch(ctx, after)
}

// got returns the numbers of lists and watches, when nothing moves anymore.
func (s *spy) got() [2]int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return [2]int{s.lists, s.watches}
}

// recorder is a handler that records its calls, and checks that each follows from the ones before.
type recorder struct {
	t     *testing.T
	mu    sync.Mutex
	calls []string
	known map[string]site
}

// record adds a recorder to in.
func record(t *testing.T, in *informer.Informer[string, site]) *recorder {
	t.Helper()
	r := &recorder{t: t, known: make(map[string]site)}
	_, err := in.AddHandler(informer.Handler[string, site]{
		OnAdd: func(s site, _ bool) {
			r.call(fmt.Sprintf("add %s.%d", s.Name, s.Rev), func() {
				assert.NotContains(r.t, r.known, s.Name)
				r.known[s.Name] = s
			})
		},
		OnUpdate: func(old, s site) {
			r.call(fmt.Sprintf("update %s.%d %d", s.Name, old.Rev, s.Rev), func() {
				assert.Equal(r.t, r.known[s.Name], old)
				r.known[s.Name] = s
			})
		},
		OnDelete: func(d cache.Tombstone[string, site]) {
			r.call(fmt.Sprintf("delete %s.%d unknown=%t", d.Key, d.Object.Rev, d.FinalStateUnknown), func() {
				assert.Contains(r.t, r.known, d.Key)
				delete(r.known, d.Key)
			})
		},
	})
	require.NoError(t, err)
	return r
}

func (r *recorder) call(what string, know func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, what)
	know()
}

// take returns the calls since the last take, when nothing moves anymore.
func (r *recorder) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// state returns the objects that were reported to the handler, when nothing moves anymore.
func (r *recorder) state() map[string]site {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.known)
}
