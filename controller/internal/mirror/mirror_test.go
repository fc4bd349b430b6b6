package mirror_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
	if got, want := ms.Of("Site"), ([]mirror.Cache{first, second}); !reflect.DeepEqual(got, want) {
		t.Errorf(`ms.Of("Site") = %v, want %v: an object does not say in which database it is`, got, want)
	}
	if got := ms.Of("Server"); len(got) != 0 {
		t.Errorf(`ms.Of("Server") = %v, want none`, got)
	}

	var heard []string
	hear := func(key string) { heard = append(heard, key) }
	stopFirst, stopSecond := ms.Each()[0].Notify(hear), ms.Each()[1].Notify(hear)
	stop := ms.Follow()
	if ms.Active() {
		t.Error("ms.Active() = true, want false")
	}
	ms.Wrote("k", written.Clock{Kind: "Server", DB: 1}, 9)
	if ms.Active() {
		t.Error("ms.Active() = true, want false: no cache mirrors servers")
	}
	ms.Wrote("k", a, 5)
	if !ms.Active() {
		t.Error("ms.Active() = false, want true")
	}
	if !waits(ms, "k") {
		t.Error(`waits(ms, "k") = false, want true`)
	}
	if waits(ms, "l") {
		t.Error(`waits(ms, "l") = true, want false`)
	}
	second.tell(9)
	first.tell(4)
	if !waits(ms, "k") {
		t.Error(`waits(ms, "k") = false, want true`)
	}
	first.tell(5)
	if waits(ms, "k") {
		t.Error(`waits(ms, "k") = true, want false`)
	}
	if diff := cmp.Diff([]string{"k"}, heard); diff != "" {
		t.Errorf("heard mismatch (-want +got):\n%s", diff)
	}
	stopFirst()
	stopSecond()
	stop()
	if first.tell != nil {
		t.Error("first.tell is set, want nil")
	}
	if second.tell != nil {
		t.Error("second.tell is set, want nil")
	}
}

func TestExistingCacheVersionIsRead(t *testing.T) {
	clock := written.Clock{Kind: "Site"}
	c := &cache{clock: clock, version: 7}
	ms := mirror.New[string]([]*cache{c})
	defer ms.Follow()()
	ms.Wrote("k", clock, 7)
	if waits(ms, "k") {
		t.Error(`waits(ms, "k") = true, want false`)
	}
	c.version = 8
	ms.Wrote("k", clock, 8)
	if !waits(ms, "k") {
		t.Error(`waits(ms, "k") = false, want true`)
	}
	ms.CatchUp()
	if waits(ms, "k") {
		t.Error(`waits(ms, "k") = true, want false`)
	}
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
	if !waits(ms, "k") {
		t.Error(`waits(ms, "k") = false, want true: version 50 of the new history was not reached`)
	}
	ms.Wrote("l", clock, 3)
	if waits(ms, "l") {
		t.Error(`waits(ms, "l") = true, want false`)
	}
}

func TestKeyWaitsForSlowestCacheUpToLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := written.Clock{Kind: "Site"}
		ms := mirror.New[string]([]*cache{{clock: clock}, {clock: clock}})
		ms.Wrote("k", clock, 5)
		for _, m := range ms.Each() {
			until, waiting := m.Expires("k")
			if !waiting {
				t.Error("waiting = false, want true")
			}
			if got := time.Until(until); got != mirror.MaxBehind {
				t.Errorf("time.Until(until) = %v, want %v", got, mirror.MaxBehind)
			}
		}
		time.Sleep(mirror.MaxBehind)
		if waits(ms, "k") {
			t.Error(`waits(ms, "k") = true, want false`)
		}
	})
}
