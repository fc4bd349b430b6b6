package simtest

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

type codecValue struct{ N int }

// selfMade decodes itself, perhaps differently each time.
type selfMade struct{ N int }

func (s *selfMade) UnmarshalJSON([]byte) error { return nil }

func remembers[T any]() bool {
	encode, decode := codecOf[T](new(decodedValues))
	return encode != nil && decode != nil
}

func TestOnlyValuesWithoutSharedMemoryAreRemembered(t *testing.T) {
	type inner struct {
		Text string
		At   time.Time
	}
	for name, c := range map[string]struct{ have, want bool }{
		"a struct":                     {remembers[codecValue](), true},
		"an array of structs":          {remembers[struct{ A [2]inner }](), true},
		"a pointer":                    {remembers[struct{ P *inner }](), false},
		"a slice":                      {remembers[[]int](), false},
		"a map":                        {remembers[map[string]int](), false},
		"anything":                     {remembers[[1]any](), false},
		"a method":                     {remembers[selfMade](), false},
		"a method of a field":          {remembers[struct{ S selfMade }](), false},
		"a field that is not exported": {remembers[struct{ hidden int }](), false},
	} {
		if c.have != c.want {
			t.Errorf("%s: remembers = %v, want %v", name, c.have, c.want)
		}
	}
}

// More values than are remembered, each of them twice.
func TestValueIsDecodedEachTime(t *testing.T) {
	var all decodedValues
	encode, decode := codecOf[codecValue](&all)
	for i := range 2500 {
		b, err := encode(codecValue{i})
		if want := fmt.Sprintf(`{"N":%d}`, i); err != nil || string(b) != want {
			t.Fatalf("encode = %s and %v, want %s", b, err, want)
		}
		for range 2 {
			if v, err := decode(b); err != nil || v != (codecValue{i}) {
				t.Fatalf("decode(%s) = %v and %v", b, v, err)
			}
		}
	}
	if _, err := decode([]byte(`{"N":"x"}`)); err == nil {
		t.Error("err is nil")
	}
	of, _ := all.byType.Load(reflect.TypeFor[codecValue]())
	if n := len(of.(*valuesOf[codecValue]).byText); n != 500 {
		t.Errorf("%d values are remembered, want 500", n)
	}
}
