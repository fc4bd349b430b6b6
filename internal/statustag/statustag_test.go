package statustag_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/statustag"
)

type Reported struct {
	Ready bool `store:"status"`
}

type Server struct {
	Image string
	Reported
	Seen int `store:"status"`
}

func TestSetChangesOnlyTaggedFields(t *testing.T) {
	fields, err := statustag.Of(reflect.TypeFor[Server]())
	if err != nil {
		t.Fatal(err)
	}
	to, from := Server{Image: "v2"}, Server{Image: "v1", Reported: Reported{Ready: true}, Seen: 3}
	fields.Set(reflect.ValueOf(&to), reflect.ValueOf(&from))
	if want := (Server{Image: "v2", Reported: Reported{Ready: true}, Seen: 3}); to != want {
		t.Errorf("to = %+v, want %+v", to, want)
	}
}

type (
	pointing struct{ *Reported }
	Selfish  struct {
		*Selfish
		Ready bool `store:"status"`
	}
	inner struct {
		Ready bool `store:"state"`
	}
)

// tagged returns a struct whose field has a tag that go vet may reject.
func tagged(tag reflect.StructTag) reflect.Type {
	return reflect.StructOf([]reflect.StructField{{Name: "Ready", Type: reflect.TypeFor[bool](), Tag: tag}})
}

func TestIgnoredTagIsRejected(t *testing.T) {
	const meaning = `the tag is store:"state", and only store:"status" has a meaning`
	for _, c := range []struct {
		typ  reflect.Type
		want string // the end of the error
	}{
		{reflect.TypeFor[inner](), "statustag_test.inner.Ready: " + meaning},
		{reflect.TypeFor[struct{ inner }](), ".inner.Ready: " + meaning},
		{reflect.TypeFor[struct{ *inner }](), ".inner.Ready: " + meaning},
		{reflect.TypeFor[struct {
			ready bool `store:"status"`
		}](), `.ready: the tag store:"status" is on an unexported field`},
		{tagged(`json:"ready", store:"status"`), ` is malformed`},
		{tagged(`store:status`), `.Ready: the tag "store:status" is malformed`},
		{reflect.TypeFor[pointing](), `statustag_test.pointing.Reported.Ready: the tag store:"status" is in a struct that is embedded by a pointer`},
		{reflect.TypeFor[Selfish](), `statustag_test.Selfish.Selfish.Ready: the tag store:"status" is in a struct that is embedded by a pointer`},
		{reflect.TypeFor[*Reported](),
			`statustag_test.Reported.Ready: the tag store:"status" needs a kind of statustag_test.Reported, not of *statustag_test.Reported`},
		{reflect.TypeFor[**Reported](),
			`statustag_test.Reported.Ready: the tag store:"status" needs a kind of statustag_test.Reported, not of **statustag_test.Reported`},
	} {
		fields, err := statustag.Of(c.typ)
		if err == nil || !strings.HasSuffix(err.Error(), c.want) || fields != nil {
			t.Errorf("%v: fields = %v, error = %v, want an error with %q", c.typ, fields, err, c.want)
		}
	}
}

func TestTypeWithoutTagHasNoFields(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[*int](), reflect.TypeFor[struct{ A int }](), reflect.TypeFor[*struct{ A int }](),
		reflect.TypeFor[struct{ Under Reported }](), reflect.TypeFor[struct{ *time.Time }](), reflect.TypeFor[struct{ time.Duration }](),
	} {
		fields, err := statustag.Of(typ)
		if err != nil {
			t.Fatal(err)
		}
		if fields != nil {
			t.Errorf("fields = %v, want nil", fields)
		}
	}
}
