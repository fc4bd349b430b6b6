package mirror_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
		if got := ms.Lags(); len(got) != 0 {
			t.Errorf("ms.Lags() = %v, want none", got)
		}
		ms.Wrote("a", clock, 3)
		time.Sleep(time.Second)
		ms.Wrote("b", clock, 4)
		time.Sleep(time.Second)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 2 * time.Second}, ms.Lags()); diff != "" {
			t.Errorf("ms.Lags() mismatch (-want +got):\n%s", diff)
		}
		tell(2)
		time.Sleep(time.Second)
		tell(3)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 3 * time.Second}, ms.Lags()); diff != "" {
			t.Errorf("ms.Lags() mismatch (-want +got):\n%s", diff)
		}

		ms.Wrote("a", clock, 9)
		time.Sleep(time.Minute)
		tell(0)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 3 * time.Second}, ms.Lags()); diff != "" {
			t.Errorf("ms.Lags() mismatch (-want +got), in a new history, version 9 means another state:\n%s", diff)
		}
		tell(5)
		ms.Wrote("a", clock, 5)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 0}, ms.Lags()); diff != "" {
			t.Errorf("ms.Lags() mismatch (-want +got), the cache shows it already:\n%s", diff)
		}
		ms.Wrote("a", clock, 6)
		stop()
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 0}, ms.Lags()); diff != "" {
			t.Errorf("ms.Lags() mismatch (-want +got), no version is known for the cache:\n%s", diff)
		}
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
			if diff := cmp.Diff(map[string]time.Duration{"sites": time.Minute}, ms.Lags()); diff != "" {
				t.Errorf("ms.Lags() mismatch (-want +got):\n%s", diff)
			}
		}
	})
}
