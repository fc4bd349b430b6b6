package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// records is a Memory that a store does not recognize: it keeps records, as every other backend does.
type records struct{ backend.Backend }

func encodedStore[T any](b *testing.B, value func(int) T) (store.Store[T], []store.Object[T]) {
	s, err := store.Open(records{must(store.NewMemory(store.MemoryConfig{}))}, "site", store.Config[T]{})
	if err != nil {
		b.Fatal(err)
	}
	objects := make([]store.Object[T], stored)
	for i, key := range makeKeys(stored) {
		if objects[i], err = s.Create(context.Background(), store.Object[T]{Key: key, Value: value(i)}); err != nil {
			b.Fatal(err)
		}
	}
	return s, objects
}

// BenchmarkStoreEncodedUpdate is BenchmarkStoreUpdate through the codec.
func BenchmarkStoreEncodedUpdate(b *testing.B) {
	b.Run(fmt.Sprintf("size=%d/impl=site", stored), func(b *testing.B) {
		updateEncoded(b, newSite, func(s *site, n int) { s.Replicas = n })
	})
	b.Run(fmt.Sprintf("size=%d/impl=port", stored), func(b *testing.B) {
		updateEncoded(b, newPort, func(p *port, n int) { p.Number = n })
	})
}

func updateEncoded[T any](b *testing.B, value func(int) T, change func(*T, int)) {
	b.ReportAllocs()
	s, objects := encodedStore(b, value)
	n := 0
	for b.Loop() {
		n++
		o := &objects[n%stored]
		change(&o.Value, -n)
		var err error
		if *o, err = s.Update(context.Background(), *o); err != nil {
			b.Fatal(err)
		}
	}
	perUnit(b, b.N, "ns/write")
}

// BenchmarkStoreEncodedList measures a list of size objects through the codec, per object, next to the time that encoding/json needs
// to decode the same envelopes and values.
func BenchmarkStoreEncodedList(b *testing.B) {
	b.Run(fmt.Sprintf("size=%d/impl=store", stored), func(b *testing.B) {
		b.ReportAllocs()
		s, _ := encodedStore(b, newSite)
		for b.Loop() {
			if l, err := s.List(context.Background()); err != nil || len(l.Items) != stored {
				b.Fatal(err)
			}
		}
		perUnit(b, b.N*stored, "ns/object")
	})
	b.Run(fmt.Sprintf("size=%d/impl=json", stored), func(b *testing.B) {
		b.ReportAllocs()
		_, objects := encodedStore(b, newSite)
		encoded := make([][]byte, stored)
		for i := range objects {
			var err error
			if encoded[i], err = json.Marshal(objects[i]); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			all := make([]store.Object[site], stored)
			for i := range encoded {
				if err := json.Unmarshal(encoded[i], &all[i]); err != nil {
					b.Fatal(err)
				}
			}
		}
		perUnit(b, b.N*stored, "ns/object")
	})
}
