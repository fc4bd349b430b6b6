package informer_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

func TestSourceWaitsForSlowCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 4 * informer.MaxBatch
		var told atomic.Int32
		in := must(informer.New(scripted{list: empty, watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				for rev := int(after); rev <= events; rev++ {
					told.Add(1)
					if !yield(informer.Event[site]{Type: informer.Modified, Object: site{Name: "a", Rev: rev}, Version: informer.Version(rev + 1)}, nil) {
						return
					}
				}
				<-ctx.Done()
			}
		}}, nameOf, informer.Config{}))
		held := make(chan struct{})
		in.OnVersion(func(informer.Version) { <-held })
		sitetest.Start(t, in)
		// The inputs that Run has taken with the list, those that fit in the feed, and one that waits for room.
		assert.LessOrEqual(t, told.Load(), int32(2*informer.MaxBatch))
		close(held)
		require.NoError(t, in.WaitForVersion(t.Context(), events+1))
		assert.EqualValues(t, events, told.Load())
		a, _ := in.Get("a")
		assert.Equal(t, events, a.Rev)
	})
}
