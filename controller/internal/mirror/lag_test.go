package mirror_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller/internal/mirror"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/written"
)

func TestLagIsAgeOfOldestUnseenWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := written.Clock{Kind: "Site"}
		c := &cache{clock: clock} // which has not listed yet
		ms := mirror.New[string]([]*cache{c})
		stop := ms.Follow()
		tell := func(v informer.Version) {
			c.version = v
			c.tell(v)
		}
		assert.Empty(t, ms.Lags())
		ms.Wrote("a", clock, 3)
		time.Sleep(time.Second)
		ms.Wrote("b", clock, 4)
		time.Sleep(time.Second)
		assert.Equal(t, map[string]time.Duration{"sites": 2 * time.Second}, ms.Lags())
		tell(2)
		time.Sleep(time.Second)
		tell(3)
		assert.Equal(t, map[string]time.Duration{"sites": 3 * time.Second}, ms.Lags())

		ms.Wrote("a", clock, 9)
		time.Sleep(time.Minute)
		tell(0)
		assert.Equal(t, map[string]time.Duration{"sites": 3 * time.Second}, ms.Lags(), "in a new history, version 9 means another state")
		tell(5)
		ms.Wrote("a", clock, 5)
		assert.Equal(t, map[string]time.Duration{"sites": 0}, ms.Lags(), "the cache shows it already")
		ms.Wrote("a", clock, 6)
		stop()
		time.Sleep(time.Minute)
		assert.Equal(t, map[string]time.Duration{"sites": 0}, ms.Lags(), "no version is known for the cache")
	})
}

func TestLagIsMaximumOfMirrorsWithSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := written.Clock{Kind: "Site", DB: 1}, written.Clock{Kind: "Site", DB: 2}
		for _, order := range [][]*cache{{{clock: near}, {clock: far}}, {{clock: far}, {clock: near}}} {
			ms := mirror.New[string](order)
			ms.Wrote("a", far, 1)
			time.Sleep(time.Minute)
			ms.Wrote("a", near, 1)
			assert.Equal(t, map[string]time.Duration{"sites": time.Minute}, ms.Lags())
		}
	})
}
