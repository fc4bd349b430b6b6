package strictjson_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/store/internal/strictjson"
)

// decode decodes an envelope in both ways. It reports whether the fast one has, and how they differ.
func decode(b []byte) (fast bool, diff string) {
	e, fast := strictjson.DecodeEnvelope(b)
	if !fast {
		return false, ""
	}
	var want strictjson.Envelope
	if err := json.Unmarshal(b, &want); err != nil {
		return true, err.Error()
	}
	if !reflect.DeepEqual(e, want) {
		return true, fmt.Sprintf("%+v, want %+v", e, want)
	}
	return true, ""
}

func TestFastEnvelopeDecodingMatchesEncodingJSON(t *testing.T) {
	const plain = `{"uid":"a b","generation":12,"created":"2026-11-23T12:00:00.123456789Z","new":true}`
	for _, b := range []string{
		plain,
		strings.Replace(plain, `,"new":true`, ``, 1),
		strings.Replace(plain, `.123456789Z`, `+02:30`, 1),
		strings.Replace(plain, `12,`, `0,`, 1),
		strings.Replace(plain, `12,`, `999999999999999999,`, 1),
	} {
		fast, diff := decode([]byte(b))
		if !fast {
			t.Errorf("%s: fast = false, want true", b)
		}
		if diff != "" {
			t.Errorf(`%s: diff = %q, want ""`, b, diff)
		}
	}
	for _, b := range []string{
		``, `{}`, `null`, plain + ` `, ` ` + plain, plain[:len(plain)-1], strings.Replace(plain, `a b`, `\u0061`, 1),
		strings.Replace(plain, `a b`, "\xff", 1), strings.Replace(plain, `a b`, "\x01", 1), strings.Replace(plain, `a b`, "ä", 1),
		strings.Replace(plain, `12`, `012`, 1), strings.Replace(plain, `12`, `-1`, 1), strings.Replace(plain, `12`, ``, 1),
		strings.Replace(plain, `12`, `1.0`, 1), strings.Replace(plain, `12`, `9999999999999999999`, 1),
		strings.Replace(plain, `T12`, `T99`, 1), strings.Replace(plain, `true`, `false`, 1),
	} {
		fast, _ := decode([]byte(b))
		if fast {
			t.Errorf("%s: fast = true, want false", b)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"uid":"a","generation":1,"created":"2026-11-23T12:00:00.5Z","new":true}`))
	f.Add([]byte(`{"uid":"","generation":100000000000000000,"created":"0000-01-01T00:00:00-23:59"}`))
	f.Add([]byte(`{"uid":"a","generation":1,"created":"2026-02-30T24:00:60Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, diff := decode(b); diff != "" {
			t.Errorf("%q: %s", b, diff)
		}
	})
}
