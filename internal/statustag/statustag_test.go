package statustag_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, err)
	to, from := Server{Image: "v2"}, Server{Image: "v1", Reported: Reported{Ready: true}, Seen: 3}
	fields.Set(reflect.ValueOf(&to), reflect.ValueOf(&from))
	assert.Equal(t, Server{Image: "v2", Reported: Reported{Ready: true}, Seen: 3}, to)
}

func TestIgnoredTagIsRejected(t *testing.T) {
	_, err := statustag.Of(reflect.TypeFor[struct {
		Ready bool `store:"state"`
	}]())
	require.ErrorContains(t, err, `Ready: the tag is store:"state", and only store:"status" has a meaning`)
}

func TestTypeWithoutTagHasNoFields(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[struct{ A int }]()} {
		fields, err := statustag.Of(typ)
		require.NoError(t, err)
		assert.Nil(t, fields)
	}
}
