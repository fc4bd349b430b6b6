package cache_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

// overlayWorld is a store, a cache that follows it late, and an Overlay. The replies to writes of this process and the
// deletions that the cache shows reach the Overlay even later, in any order.
type overlayWorld struct {
	t       *testing.T
	random  *rand.Rand
	history []*pod // the state that a change made, by version; a deletion is a pod without a version
	at      int    // the version up to which the cache shows all
	x       *cache.Indexer[string, *pod]
	byNode  *cache.Index[string, string, *pod]
	o       *cache.Overlay[string, *pod]
	replies []func()
	told    []cache.Tombstone[string, *pod]
	own     map[string]int // the version of the newest change of this process of which it knows
}

var overlayKeys, overlayNodes = []string{"a", "b"}, []string{"1", "2", "3"}

func newOverlayWorld(t *testing.T, seed uint64, knowsVersion bool) *overlayWorld {
	w := &overlayWorld{t: t, random: rand.New(rand.NewPCG(seed, 1)), history: []*pod{nil}, x: newPods(), own: map[string]int{}}
	w.byNode = cache.AddIndex(w.x, podNodes)
	var cfg cache.OverlayConfig
	if knowsVersion {
		cfg.Version = func() uint64 { return uint64(w.at) }
	}
	w.o = must(cache.NewOverlay(w.x, podName, podVersion, cfg))
	return w
}

// state returns the object of key right after the change of a version, or nil.
func (w *overlayWorld) state(key string, version int) *pod {
	for ; version > 0; version-- {
		if p := w.history[version]; p.name == key {
			if p.n == 0 {
				return nil
			}
			return p
		}
	}
	return nil
}

func (w *overlayWorld) pick(of []string) string { return of[w.random.IntN(len(of))] }

// write creates, updates or deletes an object, in this process or elsewhere.
func (w *overlayWorld) write(own bool) {
	key, version := w.pick(overlayKeys), len(w.history)
	before := w.state(key, version-1)
	p := &pod{name: key, n: version, nodes: []string{w.pick(overlayNodes), w.pick(overlayNodes)}}
	reply := func() { w.o.Wrote(p) }
	if before != nil && w.random.IntN(3) == 0 {
		p = &pod{name: key}
		reply = func() { w.o.WroteDeletion(key, uint64(before.n)) }
	}
	w.history = append(w.history, p)
	if own {
		w.replies = append(w.replies, func() {
			reply()
			w.own[key] = max(w.own[key], version)
		})
	}
}

// follow lets the cache apply the next change.
func (w *overlayWorld) follow() {
	if w.at+1 == len(w.history) {
		return
	}
	w.at++
	p := w.history[w.at]
	if p.n != 0 {
		w.x.Upsert(p)
	} else if last, ok := w.x.Delete(p.name); ok {
		w.told = append(w.told, deleted(last))
	}
}

// relist lets the cache skip to what is there now.
func (w *overlayWorld) relist() {
	w.at = len(w.history) - 1
	for _, key := range overlayKeys {
		if p := w.state(key, w.at); p != nil {
			w.x.Upsert(p)
		} else if last, ok := w.x.Delete(key); ok {
			w.told = append(w.told, missed(last))
		}
	}
}

// reply lets a reply arrive.
func (w *overlayWorld) reply() {
	if n := len(w.replies); n > 0 {
		i := w.random.IntN(n)
		w.replies[i]()
		w.replies = append(w.replies[:i], w.replies[i+1:]...)
	}
}

// tell lets the handler hear of a deletion.
func (w *overlayWorld) tell() {
	if len(w.told) > 0 {
		w.o.OnDelete(w.told[0])
		w.told = w.told[1:]
	}
}

// check compares every read with the state after the newest change that the cache shows or this process knows. A read may
// make the Overlay forget a write, so either kind of read comes first.
func (w *overlayWorld) check() {
	require.NoError(w.t, w.o.CheckInvariants())
	if w.random.IntN(2) == 0 {
		w.checkNodes()
		w.checkKeys()
	} else {
		w.checkKeys()
		w.checkNodes()
	}
}

// want returns what a read of key has to find, or nil.
func (w *overlayWorld) want(key string) *pod { return w.state(key, max(w.at, w.own[key])) }

func (w *overlayWorld) checkKeys() {
	for _, key := range overlayKeys {
		got, ok := w.o.Get(key)
		require.Equal(w.t, w.want(key), got, key)
		require.Equal(w.t, got != nil, ok, key)
	}
}

func (w *overlayWorld) checkNodes() {
	for _, node := range overlayNodes {
		var want, got []*pod
		for _, key := range overlayKeys {
			if p := w.want(key); p != nil && slices.Contains(p.nodes, node) {
				want = append(want, p)
			}
		}
		for key, p := range cache.ByIndex(w.o, w.byNode, node) {
			require.Equal(w.t, key, p.name)
			got = append(got, p)
		}
		require.ElementsMatch(w.t, want, got, node)
	}
}

func TestAnOverlayThatKnowsTheVersionOfTheCacheShowsTheNewestKnownState(t *testing.T) {
	for seed := range uint64(400) {
		w := newOverlayWorld(t, seed, true)
		for range 40 {
			[]func(){
				func() { w.write(true) }, func() { w.write(true) }, func() { w.write(false) },
				w.follow, w.follow, w.relist, w.reply, w.reply, w.tell,
			}[w.random.IntN(9)]()
			w.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func TestAnOverlayThatIsToldOfDeletionsAgreesWithTheStoreInTheEnd(t *testing.T) {
	for seed := range uint64(400) {
		w := newOverlayWorld(t, seed, false)
		for range 40 {
			[]func(){
				func() { w.write(true) }, func() { w.write(true) }, func() { w.write(false) },
				w.follow, w.follow, w.reply, w.reply, w.tell,
			}[w.random.IntN(8)]()
			require.NoError(t, w.o.CheckInvariants())
		}
		for w.at+1 < len(w.history) || len(w.replies) > 0 || len(w.told) > 0 {
			[]func(){w.follow, w.reply, w.tell}[w.random.IntN(3)]()
		}
		w.check()
		require.Zero(t, w.o.Len(), fmt.Sprint("seed ", seed))
	}
}
