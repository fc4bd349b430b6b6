package follow_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
)

func TestRecordsYieldsChangesMatchingQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []backend.Change
		for i, key := range []string{"a/1", "b/1", "a/2", "a/3", "b/2"} {
			v := informer.Version(i + 1)
			all = append(all, backend.Change{Record: backend.Record{Key: key, Version: v}, Version: v})
		}
		const batch, version = 2, 7
		var asked []informer.Version
		changes := func(_ context.Context, after informer.Version) ([]backend.Change, informer.Version, error) {
			asked = append(asked, after)
			switch left := all[min(int(after), len(all)):]; {
			case after > version:
				return nil, 0, errors.New("beyond the end")
			case len(left) >= batch:
				return slices.Clone(left[:batch]), left[batch-1].Version, nil
			default:
				return slices.Clone(left), version, nil
			}
		}
		begin := time.Now()
		loop := follow.Records(time.Hour, new(broadcast.Signal), backend.Query{Prefix: "a/"}, batch, changes)
		var reported []backend.Change
		require.NoError(t, loop.Run(t.Context(), 0, func(c backend.Change) bool {
			reported = append(reported, c)
			return c.Version < version
		}))
		assert.Equal(t, []backend.Change{
			all[0], {Version: 2}, all[2], all[3], {Version: 7},
		}, reported)
		assert.Equal(t, []informer.Version{0, 2, 4}, asked, "a full batch is read on at once")
		assert.Equal(t, begin, time.Now())
		reported = nil
		require.NoError(t, loop.Run(t.Context(), 2, func(c backend.Change) bool {
			reported = append(reported, c)
			return false
		}))
		assert.Len(t, reported, 1, "it ends where the consumer stops")
		require.EqualError(t, loop.Run(t.Context(), version+1, func(backend.Change) bool { return true }), "beyond the end")
	})
}
