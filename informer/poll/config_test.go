package poll_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer/poll"
)

func TestNaNJitterIsRejected(t *testing.T) {
	list := func(context.Context) ([]site, error) { return nil, nil }
	for want, jitter := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1)} {
		_, err := poll.New(list, nameOf, poll.Config[site]{Jitter: jitter})
		require.EqualError(t, err, "poll: new source: Config.Jitter is "+want+", must be a number")
	}
	_, err := poll.New(list, nameOf, poll.Config[site]{Jitter: -1, Interval: -1})
	require.NoError(t, err)
}

func TestNewPanicsWithoutListOrKeyFunc(t *testing.T) {
	list := func(context.Context) ([]site, error) { return nil, nil }
	assert.Panics(t, func() { must(poll.New(nil, nameOf, poll.Config[site]{})) })
	assert.Panics(t, func() { must(poll.New[string](list, nil, poll.Config[site]{})) })
}
