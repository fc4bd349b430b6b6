package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

// unwatched makes changes that no watch tells of.
func unwatched(src *informertest.Source[string, site], changes func()) {
	src.FailWatches(errOutage)
	changes()
	src.Compact()
	src.FailWatches(nil)
	time.Sleep(time.Hour) // a list brings them to light
	synctest.Wait()
}

// The handler is busy or idle while the object changes and is deleted. If it is busy, the two events are merged.
func TestDeletionHasLastStatePassingFilter(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes func(src *informertest.Source[string, site])
		merged  string
		every   string // the last call of a handler of every event
	}{
		{"the last state passes", func(src *informertest.Source[string, site]) {
			src.Put(site{Name: "a", Rev: 4})
			src.Delete("a")
		}, "delete a.4", "delete a.4"},
		{"it had left the filter", func(src *informertest.Source[string, site]) {
			src.Put(site{Name: "a", Rev: 5})
			src.Delete("a")
		}, "delete a.2", "delete a.2"},
		{"it had left the filter, and its deletion was missed", func(src *informertest.Source[string, site]) {
			src.Put(site{Name: "a", Rev: 5})
			synctest.Wait()
			unwatched(src, func() { src.Delete("a") })
		}, "delete a.2", "delete a.2"},
		{"it was recreated during a watch gap, outside the filter", func(src *informertest.Source[string, site]) {
			unwatched(src, func() {
				src.Delete("a")
				src.Put(site{Name: "a", Life: 1, Rev: 7})
			})
			src.Delete("a")
		}, "delete a.2", "delete a.2"},
		{"it was recreated during a watch gap, inside the filter", func(src *informertest.Source[string, site]) {
			unwatched(src, func() {
				src.Delete("a")
				src.Put(site{Name: "a", Life: 1, Rev: 8})
			})
			src.Delete("a")
		}, "delete a.8", "delete a.8"},
	} {
		for _, every := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := newSource()
					in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
					r := newRecorder(t)
					r.gaps, r.gate = true, make(chan struct{})
					h := r.handler()
					h.Filter, h.EveryEvent = isEven, every
					_, err := in.AddHandler(h)
					require.NoError(t, err)
					src.Put(site{Name: "a", Rev: 2})
					sitetest.Start(t, in)
					c.changes(src)
					synctest.Wait()
					close(r.gate)
					calls := r.take()
					if every {
						assert.Equal(t, c.every, calls[len(calls)-1])
					} else {
						assert.Equal(t, []string{"add a.2 initial=true", c.merged}, calls)
					}
					assert.Empty(t, r.state())
				})
			})
		}
	}
}
