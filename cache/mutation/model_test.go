package mutation_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/mutation"
)

// world is a store, a cache that follows it late, and a Cache. The replies to writes of this process and the
// deletions that the cache shows reach the Cache even later, in any order.
type world struct {
	t         *testing.T
	random    *rand.Rand
	history   []*pod // the state that a change made, by version; a deletion is a pod without a version
	at        int    // the version up to which the cache shows all
	x         *cache.Indexer[string, *pod]
	byNode    *cache.Index[string, string, *pod]
	o         *mutation.Cache[string, *pod]
	replies   []func()
	deletions []cache.Tombstone[string, *pod]
	own       map[string]int // the version of the newest change of this process that it has
}

var keys, nodes = []string{"a", "b"}, []string{"1", "2", "3"}

func newWorld(t *testing.T, seed uint64, knowsVersion bool) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), history: []*pod{nil}, x: newPods(), own: map[string]int{}}
	w.byNode = cache.AddIndex(w.x, podNodes)
	var cfg mutation.Config
	if knowsVersion {
		cfg.Version = func() uint64 { return uint64(w.at) }
	}
	w.o = must(mutation.New(w.x, podName, podVersion, cfg))
	return w
}

// state returns the object of key right after the change of a version, or nil.
func (w *world) state(key string, version int) *pod {
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

func (w *world) pick(of []string) string { return of[w.random.IntN(len(of))] }

// write creates, updates or deletes an object, in this process or elsewhere.
func (w *world) write(own bool) {
	key, version := w.pick(keys), len(w.history)
	before := w.state(key, version-1)
	p := &pod{name: key, n: version, nodes: []string{w.pick(nodes), w.pick(nodes)}}
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
func (w *world) follow() {
	if w.at+1 == len(w.history) {
		return
	}
	w.at++
	p := w.history[w.at]
	if p.n != 0 {
		w.x.Upsert(p)
	} else if last, ok := w.x.Delete(p.name); ok {
		w.deletions = append(w.deletions, deleted(last))
	}
}

// relist lets the cache skip to the present state.
func (w *world) relist() {
	w.at = len(w.history) - 1
	for _, key := range keys {
		if p := w.state(key, w.at); p != nil {
			w.x.Upsert(p)
		} else if last, ok := w.x.Delete(key); ok {
			w.deletions = append(w.deletions, missed(last))
		}
	}
}

// reply lets a reply arrive.
func (w *world) reply() {
	if n := len(w.replies); n > 0 {
		i := w.random.IntN(n)
		w.replies[i]()
		w.replies = append(w.replies[:i], w.replies[i+1:]...)
	}
}

// report reports a deletion to the handler.
func (w *world) report() {
	if len(w.deletions) > 0 {
		w.o.OnDelete(w.deletions[0])
		w.deletions = w.deletions[1:]
	}
}

// check compares every read with the state after the newest change that the cache shows or this process has. A read may
// make the Cache forget a write, so the kinds of read come in any order.
func (w *world) check() {
	require.NoError(w.t, w.o.CheckInvariants())
	reads := []func(){w.checkKeys, w.checkAll, w.checkNodes}
	w.random.Shuffle(len(reads), func(i, j int) { reads[i], reads[j] = reads[j], reads[i] })
	for _, read := range reads {
		read()
	}
}

// want returns the object that a read of key must find, or nil.
func (w *world) want(key string) *pod { return w.state(key, max(w.at, w.own[key])) }

func (w *world) checkKeys() {
	for _, key := range keys {
		got, ok := w.o.Get(key)
		require.Equal(w.t, w.want(key), got, key)
		require.Equal(w.t, got != nil, ok, key)
	}
}

func (w *world) checkAll() {
	var want, got []*pod
	for _, key := range keys {
		if p := w.want(key); p != nil {
			want = append(want, p)
		}
	}
	for key, p := range w.o.All() {
		require.Equal(w.t, key, p.name)
		got = append(got, p)
	}
	require.ElementsMatch(w.t, want, got)
}

func (w *world) checkNodes() {
	for _, node := range nodes {
		var want, got []*pod
		for _, key := range keys {
			if p := w.want(key); p != nil && slices.Contains(p.nodes, node) {
				want = append(want, p)
			}
		}
		for key, p := range mutation.ByIndex(w.o, w.byNode).All(node) {
			require.Equal(w.t, key, p.name)
			got = append(got, p)
		}
		require.ElementsMatch(w.t, want, got, node)
	}
}

func TestCacheWithVersionShowsNewestKnownState(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(t, seed, true)
		for range 40 {
			[]func(){
				func() { w.write(true) }, func() { w.write(true) }, func() { w.write(false) },
				w.follow, w.follow, w.relist, w.reply, w.reply, w.report,
			}[w.random.IntN(9)]()
			w.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func TestCacheWithDeletionsConvergesToStore(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(t, seed, false)
		for range 40 {
			[]func(){
				func() { w.write(true) }, func() { w.write(true) }, func() { w.write(false) },
				w.follow, w.follow, w.reply, w.reply, w.report,
			}[w.random.IntN(8)]()
			require.NoError(t, w.o.CheckInvariants())
		}
		for w.at+1 < len(w.history) || len(w.replies) > 0 || len(w.deletions) > 0 {
			[]func(){w.follow, w.reply, w.report}[w.random.IntN(3)]()
		}
		w.check()
		require.Zero(t, w.o.Len(), fmt.Sprint("seed ", seed))
	}
}
