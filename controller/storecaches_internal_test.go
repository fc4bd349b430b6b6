package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// fakeCache has the version that a test sets. It mirrors clock, if that has a kind.
type fakeCache struct {
	clock   reconcile.Clock
	version informer.Version
	asked   func() // before Version answers; may be nil
	tell    func(informer.Version)
}

func (c *fakeCache) Version() informer.Version {
	v := c.version
	if c.asked != nil {
		c.asked()
	}
	return v
}
func (*fakeCache) Name() string                                             { return "sites" }
func (c *fakeCache) WaitForVersion(context.Context, informer.Version) error { return nil }
func (c *fakeCache) OnVersion(f func(informer.Version)) (stop func()) {
	c.tell = f
	return func() { c.tell = nil }
}

func (c *fakeCache) Source() any {
	if c.clock.Kind == "" {
		return nil
	}
	return fakeSource{c.clock}
}

type fakeSource struct{ clock reconcile.Clock }

func (s fakeSource) Clock() reconcile.Clock { return s.clock }

// len returns the number of keys that have written something that the cache does not show.
func (c *storeCache[K]) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.behind)
}

// remembers reports whether the version that key has written is remembered, even if its wait has expired.
func (c *storeCache[K]) remembers(key K) bool {
	_, waiting := c.awaited.Expires(key)
	return waiting
}

func waits(ms *storeCaches[string], key string) bool {
	return slices.ContainsFunc(ms.all, func(m *storeCache[string]) bool {
		_, waiting := m.Expires(key)
		return waiting
	})
}

// A key writes again between the moment at which the cache shows its first write and the call that reports it, and just when the expiry of
// its wait is taken.
func TestWriteDuringReportOfEarlierWriteIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := reconcile.Clock{Kind: "Site", DB: 1}
		ms := newStoreCaches[string]([]any{&fakeCache{clock: clock}})
		c := ms.all[0]
		ms.wrote("k", clock, 5)
		c.shown("k") // late: about an earlier write
		if !waits(ms, "k") {
			t.Error(`waits(ms, "k") = false, want true`)
		}

		ms.startTimers("k")
		time.Sleep(maxBehind)
		again := true
		stop := c.Notify(func(string) {
			if again { // expired has ended the wait for 5
				again = false
				ms.wrote("k", clock, 6)
			}
		})
		defer stop()
		if version, _, expired := c.expired("k"); !expired || version != 5 {
			t.Errorf(`c.expired("k") = %d, %v, want 5, true`, version, expired)
		}
		if !waits(ms, "k") || !c.remembers("k") {
			t.Errorf("waits %v, remembers %v, want true", waits(ms, "k"), c.remembers("k"))
		}
	})
}

func TestKeyWaitsForCachesMirroringItsWrites(t *testing.T) {
	a, b := reconcile.Clock{Kind: "Site", DB: 1}, reconcile.Clock{Kind: "Site", DB: 2}
	first, second, other := &fakeCache{clock: a}, &fakeCache{clock: b}, &fakeCache{}
	ms := newStoreCaches[string]([]any{first, second, other, "no cache"})
	if got, want := ms.of("Site"), ([]versionedCache{first, second}); !reflect.DeepEqual(got, want) {
		t.Errorf(`ms.of("Site") = %v, want %v: an object does not say in which database it is`, got, want)
	}
	if got := ms.of("Server"); len(got) != 0 {
		t.Errorf(`ms.of("Server") = %v, want none`, got)
	}

	var heard []string
	hear := func(key string) { heard = append(heard, key) }
	stopFirst, stopSecond := ms.all[0].Notify(hear), ms.all[1].Notify(hear)
	stop := ms.follow()
	if ms.active.Load() {
		t.Error("ms.active.Load() = true, want false")
	}
	ms.wrote("k", reconcile.Clock{Kind: "Server", DB: 1}, 9)
	if ms.active.Load() {
		t.Error("ms.active.Load() = true, want false: no cache mirrors servers")
	}
	ms.wrote("k", a, 5)
	if !ms.active.Load() {
		t.Error("ms.active.Load() = false, want true")
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
	clock := reconcile.Clock{Kind: "Site"}
	c := &fakeCache{clock: clock, version: 7}
	ms := newStoreCaches[string]([]*fakeCache{c})
	defer ms.follow()()
	ms.wrote("k", clock, 7)
	if waits(ms, "k") {
		t.Error(`waits(ms, "k") = true, want false`)
	}
	c.version = 8
	ms.wrote("k", clock, 8)
	if !waits(ms, "k") {
		t.Error(`waits(ms, "k") = false, want true`)
	}
	ms.observeNow()
	if waits(ms, "k") {
		t.Error(`waits(ms, "k") = true, want false`)
	}
}

func TestVersionOfEndedHistoryIsIgnored(t *testing.T) {
	clock := reconcile.Clock{Kind: "Site"}
	c := &fakeCache{clock: clock, version: 100}
	n := 0
	c.asked = func() {
		if n++; n == 1 { // after 100 was read
			c.version = 3
		}
	}
	ms := newStoreCaches[string]([]*fakeCache{c})
	ms.observeNow()
	ms.wrote("k", clock, 50)
	if !waits(ms, "k") {
		t.Error(`waits(ms, "k") = false, want true: version 50 of the new history was not reached`)
	}
	ms.wrote("l", clock, 3)
	if waits(ms, "l") {
		t.Error(`waits(ms, "l") = true, want false`)
	}
}

func TestKeyWaitsForSlowestCacheUpToLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := reconcile.Clock{Kind: "Site"}
		ms := newStoreCaches[string]([]*fakeCache{{clock: clock}, {clock: clock}})
		ms.wrote("k", clock, 5)
		for _, m := range ms.all {
			until, waiting := m.Expires("k")
			if !waiting {
				t.Error("waiting = false, want true")
			}
			if got := time.Until(until); got != maxBehind {
				t.Errorf("time.Until(until) = %v, want %v", got, maxBehind)
			}
		}
		time.Sleep(maxBehind)
		if waits(ms, "k") {
			t.Error(`waits(ms, "k") = true, want false`)
		}
	})
}

// A model says which keys wait, and which have waited in vain, after any history of writes, ends of reconciles, versions, and time.
func TestWaitsMatchModel(t *testing.T) {
	type wait struct {
		version uint64
		began   time.Time
	}
	clock := reconcile.Clock{Kind: "Site"}
	keys := []string{"a", "b", "c"}
	lapsed := 0
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			c := &fakeCache{clock: clock}
			ms := newStoreCaches[string]([]*fakeCache{c})
			defer ms.follow()()
			m := ms.all[0]
			model := map[string]wait{}
			next := uint64(0)
			for range 40 {
				key := keys[random.IntN(len(keys))]
				switch random.IntN(6) {
				case 0:
					next++
					ms.wrote(key, clock, next)
					model[key] = wait{next, time.Now()}
				case 1:
					ms.startTimers(key)
					if w, ok := model[key]; ok {
						model[key] = wait{w.version, time.Now()}
					}
				case 2:
					v := uint64(c.version) + random.Uint64N(3)
					c.version = informer.Version(min(v, next))
					c.tell(c.version)
					for key, w := range model {
						if w.version <= uint64(c.version) {
							delete(model, key)
						}
					}
				case 3:
					version, waited, expired := m.expired(key)
					w, ok := model[key]
					if want := ok && time.Since(w.began) >= maxBehind; expired != want {
						t.Fatalf("seed %d: m.expired(%q) = %v, want %v", seed, key, expired, want)
					}
					if expired {
						lapsed++
						if version != w.version || waited != time.Since(w.began) {
							t.Fatalf("seed %d: m.expired(%q) = %d, %v, want %v", seed, key, version, waited, w)
						}
						delete(model, key)
					}
				default:
					time.Sleep(time.Duration(random.IntN(6)) * time.Second)
				}
				for _, key := range keys {
					until, waiting := m.Expires(key)
					w, ok := model[key]
					if m.remembers(key) != ok {
						t.Fatalf("seed %d: m.remembers(%q) = %v, want %v", seed, key, !ok, ok)
					}
					if want := ok && time.Since(w.began) < maxBehind; waiting != want || waiting && !until.Equal(w.began.Add(maxBehind)) {
						t.Fatalf("seed %d: m.Expires(%q) = %v, %v, want %v of %v", seed, key, until, waiting, want, w)
					}
				}
				if m.len() != len(model) {
					t.Fatalf("seed %d: %d keys wait, want %v", seed, m.len(), model)
				}
			}
		})
	}
	if lapsed < 100 {
		t.Errorf("%d waits have expired, want at least 100", lapsed)
	}
}

// Whatever writes and observations race, a key waits for its last write, and no longer.
func TestRacingWritesAndObservationsLeaveNothing(t *testing.T) {
	clock := reconcile.Clock{Kind: "Site"}
	c := &fakeCache{clock: clock}
	ms := newStoreCaches[string]([]*fakeCache{c})
	defer ms.follow()()
	var version atomic.Uint64
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() { // ends by itself
			for i := range 2000 {
				key := fmt.Sprint(i % 4)
				ms.wrote(key, clock, version.Add(1))
				ms.startTimers(key)
				ms.all[0].expired(key)
			}
		})
	}
	done := make(chan struct{})
	go func() { // ends after the last write
		defer close(done)
		for v := uint64(0); v < 6000; {
			if now := version.Load(); now > v {
				v++
				c.tell(informer.Version(v))
			}
		}
	}()
	writers.Wait()
	<-done
	c.tell(6001)
	if n := ms.all[0].len(); n != 0 {
		t.Errorf("%d keys wait, want none", n)
	}
	ms.wrote("0", clock, 6002)
	if !waits(ms, "0") {
		t.Error(`waits(ms, "0") = false, want true`)
	}
}

func TestLagIsAgeOfOldestUnseenWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := reconcile.Clock{Kind: "Site"}
		c := &fakeCache{clock: clock} // which has not listed yet
		ms := newStoreCaches[string]([]*fakeCache{c})
		stop := ms.follow()
		tell := func(v informer.Version) {
			c.version = v
			c.tell(v)
		}
		if got := ms.lags(); len(got) != 0 {
			t.Errorf("ms.lags() = %v, want none", got)
		}
		ms.wrote("a", clock, 3)
		time.Sleep(time.Second)
		ms.wrote("b", clock, 4)
		time.Sleep(time.Second)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 2 * time.Second}, ms.lags()); diff != "" {
			t.Errorf("ms.lags() mismatch (-want +got):\n%s", diff)
		}
		tell(2)
		time.Sleep(time.Second)
		tell(3)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 3 * time.Second}, ms.lags()); diff != "" {
			t.Errorf("ms.lags() mismatch (-want +got):\n%s", diff)
		}

		ms.wrote("a", clock, 9)
		time.Sleep(time.Minute)
		tell(0)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 3 * time.Second}, ms.lags()); diff != "" {
			t.Errorf("ms.lags() mismatch (-want +got), in a new history, version 9 means another state:\n%s", diff)
		}
		tell(5)
		ms.wrote("a", clock, 5)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 0}, ms.lags()); diff != "" {
			t.Errorf("ms.lags() mismatch (-want +got), the cache shows it already:\n%s", diff)
		}
		ms.wrote("a", clock, 6)
		stop()
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[string]time.Duration{"sites": 0}, ms.lags()); diff != "" {
			t.Errorf("ms.lags() mismatch (-want +got), no version is known for the cache:\n%s", diff)
		}
	})
}

func TestLagIsMaximumOfMirrorsWithSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := reconcile.Clock{Kind: "Site", DB: 1}, reconcile.Clock{Kind: "Site", DB: 2}
		for _, order := range [][]*fakeCache{{{clock: near}, {clock: far}}, {{clock: far}, {clock: near}}} {
			ms := newStoreCaches[string](order)
			ms.wrote("a", far, 1)
			time.Sleep(time.Minute)
			ms.wrote("a", near, 1)
			if diff := cmp.Diff(map[string]time.Duration{"sites": time.Minute}, ms.lags()); diff != "" {
				t.Errorf("ms.lags() mismatch (-want +got):\n%s", diff)
			}
		}
	})
}
