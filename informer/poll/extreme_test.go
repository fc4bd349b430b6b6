package poll_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/informer/poll"
)

func nothing(context.Context) ([]site, error) { return nil, nil }

func TestBookmarkPeriodOfLongIntervalDoesNotOverflow(t *testing.T) {
	for _, cfg := range []poll.Config[site]{
		{Interval: math.MaxInt64}, {Interval: math.MaxInt64, Jitter: -1}, {Interval: time.Hour, Jitter: 1e300},
		{Interval: math.MaxInt64 - 1, Jitter: 1},
	} {
		src := must(poll.New(nothing, nameOf, cfg))
		assert.GreaterOrEqual(t, src.BookmarkPeriod(), cfg.Interval, "with a jitter of %v", cfg.Jitter)
	}
}

func TestInformerOfLongIntervalIsNotStale(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, interval := range []time.Duration{time.Hour, 100 * year, 200 * year, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			src := must(poll.New(nothing, nameOf, poll.Config[site]{Interval: interval, Jitter: -1}))
			in := must(informer.New(src, nameOf, informer.Config{}))
			sitetest.Start(t, in)
			time.Sleep(2 * time.Hour)
			assert.False(t, in.Stale(time.Minute), "it is silent for no longer than twice %v", interval)
		})
	}
}
