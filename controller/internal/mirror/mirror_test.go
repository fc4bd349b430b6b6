package mirror_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller/internal/mirror"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/written"
)

// cache has the version that a test sets. It mirrors clock, if that has a kind.
type cache struct {
	clock   written.Clock
	version informer.Version
	asked   func() // before Version answers; may be nil
	tell    func(informer.Version)
}

func (c *cache) Version() informer.Version {
	v := c.version
	if c.asked != nil {
		c.asked()
	}
	return v
}
func (*cache) Name() string                                             { return "sites" }
func (c *cache) WaitForVersion(context.Context, informer.Version) error { return nil }
func (c *cache) OnVersion(f func(informer.Version)) (stop func()) {
	c.tell = f
	return func() { c.tell = nil }
}

func (c *cache) Source() any {
	if c.clock.Kind == "" {
		return nil
	}
	return source{c.clock}
}

type source struct{ clock written.Clock }

func (s source) Clock() written.Clock { return s.clock }

func waits(ms *mirror.Mirrors[string], key string) bool {
	return slices.ContainsFunc(ms.Each(), func(m *mirror.Mirror[string]) bool {
		_, waiting := m.Expires(key)
		return waiting
	})
}

func TestKeyWaitsForCachesMirroringItsWrites(t *testing.T) {
	a, b := written.Clock{Kind: "Site", DB: 1}, written.Clock{Kind: "Site", DB: 2}
	first, second, other := &cache{clock: a}, &cache{clock: b}, &cache{}
	ms := mirror.New[string]([]any{first, second, other, "no cache"})
	assert.Equal(t, []mirror.Cache{first, second}, ms.Of("Site"), "an object does not say in which database it is")
	assert.Empty(t, ms.Of("Server"))

	var heard []string
	hear := func(key string) { heard = append(heard, key) }
	stopFirst, stopSecond := ms.Each()[0].Notify(hear), ms.Each()[1].Notify(hear)
	stop := ms.Follow()
	assert.False(t, ms.Active())
	ms.Wrote("k", written.Clock{Kind: "Server", DB: 1}, 9)
	assert.False(t, ms.Active(), "no cache mirrors servers")
	ms.Wrote("k", a, 5)
	assert.True(t, ms.Active())
	assert.True(t, waits(ms, "k"))
	assert.False(t, waits(ms, "l"))
	second.tell(9)
	first.tell(4)
	assert.True(t, waits(ms, "k"))
	first.tell(5)
	assert.False(t, waits(ms, "k"))
	assert.Equal(t, []string{"k"}, heard)
	stopFirst()
	stopSecond()
	stop()
	assert.Nil(t, first.tell)
	assert.Nil(t, second.tell)
}

func TestExistingCacheVersionIsRead(t *testing.T) {
	clock := written.Clock{Kind: "Site"}
	c := &cache{clock: clock, version: 7}
	ms := mirror.New[string]([]*cache{c})
	defer ms.Follow()()
	ms.Wrote("k", clock, 7)
	assert.False(t, waits(ms, "k"))
	c.version = 8
	ms.Wrote("k", clock, 8)
	assert.True(t, waits(ms, "k"))
	ms.CatchUp()
	assert.False(t, waits(ms, "k"))
}

func TestVersionOfEndedHistoryIsIgnored(t *testing.T) {
	clock := written.Clock{Kind: "Site"}
	c := &cache{clock: clock, version: 100}
	n := 0
	c.asked = func() {
		if n++; n == 1 { // after 100 was read
			c.version = 3
		}
	}
	ms := mirror.New[string]([]*cache{c})
	ms.CatchUp()
	ms.Wrote("k", clock, 50)
	assert.True(t, waits(ms, "k"), "version 50 of the new history was not reached")
	ms.Wrote("l", clock, 3)
	assert.False(t, waits(ms, "l"))
}

func TestKeyWaitsForSlowestCacheUpToLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := written.Clock{Kind: "Site"}
		ms := mirror.New[string]([]*cache{{clock: clock}, {clock: clock}})
		ms.Wrote("k", clock, 5)
		for _, m := range ms.Each() {
			until, waiting := m.Expires("k")
			assert.True(t, waiting)
			assert.Equal(t, mirror.MaxBehind, time.Until(until))
		}
		time.Sleep(mirror.MaxBehind)
		assert.False(t, waits(ms, "k"))
	})
}
