package bench_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// BenchmarkStoreFloor measures what encoding/json alone takes for the values of a create, an update, and a list: a create encodes a value,
// and decodes it for the caller; an update first decodes the stored value; a list decodes each value.
func BenchmarkStoreFloor(b *testing.B) {
	b.Run(fmt.Sprintf("size=%d/impl=site", stored), func(b *testing.B) {
		jsonAlone(b, newSite, func(s *site, n int) { s.Replicas = n })
	})
	b.Run(fmt.Sprintf("size=%d/impl=port", stored), func(b *testing.B) {
		jsonAlone(b, newPort, func(p *port, n int) { p.Number = n })
	})
}

func jsonAlone[T any](b *testing.B, value func(int) T, change func(*T, int)) {
	decode := func(b *testing.B, encoded []byte) (v T) {
		if err := json.Unmarshal(encoded, &v); err != nil {
			b.Fatal(err)
		}
		return v
	}
	encode := func(b *testing.B, v T) []byte {
		encoded, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		return encoded
	}
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			decode(b, encode(b, value(n)))
		}
	})
	all := make([][]byte, stored)
	for n := range all {
		all[n] = encode(b, value(n))
	}
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			at := n % stored
			v := decode(b, all[at])
			change(&v, -n)
			all[at] = encode(b, v)
			decode(b, all[at])
		}
	})
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			decode(b, all[n%stored])
		}
	})
}
