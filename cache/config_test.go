package cache_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

func TestNewDeltaFIFORejectsBadConfigAndNilKeyFunc(t *testing.T) {
	never := func(_, _ *pod) bool { return false }
	_, err := cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{Equal: never})
	require.EqualError(t, err, "cache: new delta FIFO: DeltaFIFOConfig.Equal is set without DeltaFIFOConfig.KnownObjects")
	_, err = cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{Equal: never, KnownObjects: newPods()})
	require.NoError(t, err)
	require.PanicsWithValue(t, "cache: NewDeltaFIFO: the key function is nil", func() {
		_, _ = cache.NewDeltaFIFO(nil, cache.DeltaFIFOConfig[string, *pod]{})
	})
}
