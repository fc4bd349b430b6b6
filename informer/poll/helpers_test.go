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
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

var errOutage = errors.New("no route to host")

type site = sitetest.Site

func nameOf(s site) string { return s.Name }

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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

// state returns the objects that the handler knows, when nothing moves anymore.
func (r *recorder) state() map[string]site {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.known)
}
