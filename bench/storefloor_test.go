package bench_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// handMade is the minimum cost of a store in memory that shares no memory with its callers: a lock, a map, a ring of the last changes, and
// hand-written copies for the one type. It has no checks and no watches.
type handMade struct {
	mu      sync.RWMutex
	version informer.Version
	objects map[string]*store.Object[site]
	ring    [4096]*store.Object[site]
}

func (h *handMade) create(o store.Object[site]) store.Object[site] {
	next := &store.Object[site]{Key: o.Key, Value: cloneSite(o.Value), UID: rand.Text(), Generation: 1, Created: time.Now().UTC().Round(0)}
	h.put(next)
	o = *next
	o.Value = cloneSite(o.Value)
	return o
}

// update shares equal parts with the previous version, if it may, and copies everything otherwise.
func (h *handMade) update(o store.Object[site], share bool) store.Object[site] {
	h.mu.RLock()
	old := h.objects[o.Key]
	h.mu.RUnlock()
	next := new(store.Object[site])
	*next = *old
	next.Generation++
	if share && slices.Equal(o.Value.Ports, old.Value.Ports) && slices.Equal(o.Value.Args, old.Value.Args) && maps.Equal(o.Value.Env, old.Value.Env) {
		next.Value.Image, next.Value.Replicas = o.Value.Image, o.Value.Replicas
	} else {
		next.Value = cloneSite(o.Value)
	}
	h.put(next)
	o = *next
	o.Value = cloneSite(o.Value)
	return o
}

func (h *handMade) put(o *store.Object[site]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	o.Version = h.version
	h.objects[o.Key] = o
	h.ring[h.version%4096] = o
}

func cloneSite(s site) site {
	s.Ports, s.Args, s.Env = slices.Clone(s.Ports), slices.Clone(s.Args), maps.Clone(s.Env)
	return s
}

// BenchmarkStoreFloor is BenchmarkStoreCreate and BenchmarkStoreUpdate of the hand-made store.
func BenchmarkStoreFloor(b *testing.B) {
	keys := makeKeys(stored)
	b.Run(fmt.Sprintf("size=%d/impl=create", stored), func(b *testing.B) {
		b.ReportAllocs()
		values := make([]site, stored)
		for i := range values {
			values[i] = newSite(i)
		}
		for b.Loop() {
			h := &handMade{objects: make(map[string]*store.Object[site])}
			for i, key := range keys {
				h.create(store.Object[site]{Key: key, Value: values[i]})
			}
		}
		perUnit(b, b.N*stored, "ns/write")
	})
	for i, name := range []string{"update-copying", "update-sharing"} {
		b.Run(fmt.Sprintf("size=%d/impl=%s", stored, name), func(b *testing.B) {
			b.ReportAllocs()
			h := &handMade{objects: make(map[string]*store.Object[site])}
			objects := make([]store.Object[site], stored)
			for at, key := range keys {
				objects[at] = h.create(store.Object[site]{Key: key, Value: newSite(at)})
			}
			n := 0
			for b.Loop() {
				n++
				o := &objects[n%stored]
				o.Value.Replicas = -n
				*o = h.update(*o, i == 1)
			}
			perUnit(b, b.N, "ns/write")
		})
	}
}
