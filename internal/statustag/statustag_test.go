package statustag_test

import (
	"reflect"
	"strings"
	"testing"

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

func TestIgnoredTagIsRejected(t *testing.T) {
	_, err := statustag.Of(reflect.TypeFor[struct {
		Ready bool `store:"state"`
	}]())
	if want := `Ready: the tag is store:"state", and only store:"status" has a meaning`; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error = %v, want an error with %q", err, want)
	}
}

func TestTypeWithoutTagHasNoFields(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[struct{ A int }]()} {
		fields, err := statustag.Of(typ)
		if err != nil {
			t.Fatal(err)
		}
		if fields != nil {
			t.Errorf("fields = %v, want nil", fields)
		}
	}
}
