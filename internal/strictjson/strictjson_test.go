package strictjson_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/strictjson"
)

// Rates has parts that not every value of can be encoded.
type Rates struct {
	ByZone map[string][]*Rate
	Note   any
	Since  time.Time
	Secret func() `json:"-"`
	Next   *Rates
}

type Rate struct{ PerSecond float64 }

type (
	onlyEncodes struct{ Done chan int }
	onlyDecodes struct{ Done chan int }
)

// zone is text with methods of its own.
type zone string

func (z zone) MarshalText() ([]byte, error)  { return []byte(z), nil }
func (z *zone) UnmarshalText(b []byte) error { *z = zone(b); return nil }

type base struct {
	Name  string
	Share float64
}

// derived has a part that encoding/json encodes although its name is not exported.
type derived struct{ base }

func (onlyEncodes) MarshalText() ([]byte, error) { return nil, nil }
func (*onlyDecodes) UnmarshalText([]byte) error  { return nil }

func TestUnsupportedTypeIsRejectedWithFieldPath(t *testing.T) {
	type hidden struct{ Shown, hidden int }
	for _, c := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[Rates](), ""},
		{reflect.TypeFor[map[time.Time]int](), ""},
		{reflect.TypeFor[struct{ json.RawMessage }](), ""},
		{reflect.TypeFor[struct{ Zone zone }](), ""},
		{reflect.TypeFor[derived](), ""},
		{reflect.TypeFor[struct{ base base }](), "struct { base strictjson_test.base }.base: an unexported field is not plain data"},
		{reflect.TypeFor[struct{ *base }](), "struct { *strictjson_test.base }.base: an unexported field is not plain data"},
		{reflect.TypeFor[map[onlyEncodes]int](), "map[strictjson_test.onlyEncodes]int[key]: strictjson_test.onlyEncodes is not plain data for the key of a map"},
		{reflect.TypeFor[struct{ hidden }](), "struct { strictjson_test.hidden }.hidden.hidden: an unexported field is not plain data"},
		{reflect.TypeFor[error](), "error: error is not plain data"},
		{reflect.TypeFor[[]map[string]*hidden](), "[]map[string]*strictjson_test.hidden[][].hidden: an unexported field is not plain data"},
		{reflect.TypeFor[struct{ F [2]func() }](), "struct { F [2]func() }.F[]: func() is not plain data"},
		{reflect.TypeFor[map[float64]int](), "map[float64]int[key]: float64 is not plain data for the key of a map"},
		{reflect.TypeFor[map[onlyDecodes]int](), "map[strictjson_test.onlyDecodes]int[key]: strictjson_test.onlyDecodes is not plain data for the key of a map"},
		{reflect.TypeFor[onlyEncodes](), "strictjson_test.onlyEncodes.Done: chan int is not plain data"},
		{reflect.TypeFor[onlyDecodes](), "strictjson_test.onlyDecodes.Done: chan int is not plain data"},
		{reflect.TypeFor[complex64](), "complex64: complex64 is not plain data"},
	} {
		err := strictjson.Check(c.typ)
		if c.want == "" {
			if err != nil {
				t.Errorf("%v: %v", c.typ, err)
			}
		} else {
			if err == nil || err.Error() != c.want {
				t.Errorf("error = %v, want the error %q", err, c.want)
			}
		}
	}
}

func TestLossyValueIsRejectedWithPath(t *testing.T) {
	self := &Rates{}
	self.Next = self
	for _, c := range []struct {
		value Rates
		want  string
	}{
		{Rates{ByZone: map[string][]*Rate{"a": {{1}, {math.NaN()}}}}, "strictjson_test.Rates.ByZone[a][1].PerSecond: json: unsupported value: NaN"},
		{Rates{Note: map[string]any{"f": func() {}}}, "strictjson_test.Rates.Note[f]: json: unsupported type: func()"},
		{Rates{Note: []string{"fine", "\xff"}}, "strictjson_test.Rates.Note[1]: a string is not UTF-8"},
		{Rates{ByZone: map[string][]*Rate{"\xff": nil}}, "a string is not UTF-8"},
		{*self, "json: unsupported value: encountered a cycle via *strictjson_test.Rates"},
	} {
		_, err := strictjson.Encode(c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error = %v, want an error with %q", err, c.want)
		}
	}
}

func TestLossyPartOfEmbeddedStructIsRejected(t *testing.T) {
	for want, value := range map[string]derived{
		"strictjson_test.derived.base.Name: a string is not UTF-8":          {base{Name: "\xff"}},
		"strictjson_test.derived.base.Share: json: unsupported value: +Inf": {base{Share: math.Inf(1)}},
	} {
		if _, err := strictjson.Encode(value); err == nil || err.Error() != want {
			t.Errorf("error = %v, want the error %q", err, want)
		}
	}
}

// The text of such a value is not in the JSON.
func TestTextThatIsNotEncodedIsNotChecked(t *testing.T) {
	type partly struct {
		Shown  string
		hidden string
		Left   string `json:"-"`
		At     time.Time
		Raw    json.RawMessage
	}
	if _, err := strictjson.Encode(partly{Shown: "\ufffd", hidden: "\xff", Left: "\xff", Raw: json.RawMessage(`1`)}); err != nil {
		t.Error(err)
	}
}

func TestEncodedValueRoundTrips(t *testing.T) {
	want := Rates{
		ByZone: map[string][]*Rate{"a": {{1}, nil}}, Note: "\ufffd \\ufffd \x00 is text", Since: time.Unix(1, 2).UTC(), Next: &Rates{},
	}
	b, err := strictjson.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := strictjson.Decode[Rates](b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got = %+v, want %+v", got, want)
	}
	_, err = strictjson.Decode[Rates]([]byte(`{"Next":1}`))
	if err == nil || !strings.Contains(err.Error(), "Rates.Next") {
		t.Errorf("error = %v, want an error with %q", err, "Rates.Next")
	}
}

func TestUnknownFieldIsIgnored(t *testing.T) {
	got, err := strictjson.Decode[Rate]([]byte(`{"PerSecond": 1, "OfNewerVersion": [2]}`))
	if err != nil || got != (Rate{1}) {
		t.Errorf("decoded %v, %v", got, err)
	}
}
