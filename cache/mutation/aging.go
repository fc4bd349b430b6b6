package mutation

import (
	"hash/maphash"
	"time"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// sweep is the highest number of expired values that one call removes.
const sweep = 4

// aging holds values by key, each for the same time, the oldest first. So deadlines never decrease from first to last.
type aging[K comparable, V any] struct {
	ttl time.Duration
	hashtable.Ordered[K, aged[V]]
}

type aged[V any] struct {
	v        V
	deadline time.Time // when the value expires
}

func newAging[K comparable, V any](ttl time.Duration) aging[K, V] {
	return aging[K, V]{ttl: ttl, Ordered: hashtable.NewOrdered[K, aged[V]](maphash.MakeSeed())}
}

// alive returns the value of key that has not expired, or nil.
func (a *aging[K, V]) alive(key K, now time.Time) *hashtable.Node[K, aged[V]] {
	if e := a.Get(key); e != nil && now.Before(e.Value.deadline) {
		return e
	}
	return nil
}

// put stores v for the whole TTL, as the youngest value.
func (a *aging[K, V]) put(key K, v V, now time.Time) {
	hash := a.Hash(key)
	if e := a.Find(key, hash); e != nil {
		a.Remove(e)
	}
	e, _ := a.Push(key, hash)
	e.Value = aged[V]{v, now.Add(a.ttl)}
}

// expire removes expired values, at most limit of them.
func (a *aging[K, V]) expire(now time.Time, limit int) {
	for e := a.First(); limit > 0 && e != nil && !now.Before(e.Value.deadline); e = a.First() {
		a.Remove(e)
		limit--
	}
}
