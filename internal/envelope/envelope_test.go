package envelope_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/internal/envelope"
)

// decode decodes an envelope in both ways. It reports whether the fast one has, and how they differ.
func decode(b []byte) (fast bool, diff string) {
	e, fast := envelope.DecodePlain(b)
	if !fast {
		return false, ""
	}
	var want envelope.Envelope
	if err := json.Unmarshal(b, &want); err != nil {
		return true, err.Error()
	}
	if !reflect.DeepEqual(e, want) {
		return true, fmt.Sprintf("%+v, want %+v", e, want)
	}
	return true, ""
}

// encode encodes an envelope in both ways. It returns how they differ.
func encode(e envelope.Envelope) (b []byte, diff string) {
	b, err := envelope.Encode(&e)
	want, wantErr := json.Marshal(e)
	if (err == nil) != (wantErr == nil) || string(b) != string(want) {
		return b, fmt.Sprintf("%s and %v, want %s and %v", b, err, want, wantErr)
	}
	return b, ""
}

func TestFastDecodingMatchesEncodingJSON(t *testing.T) {
	const (
		plain = `{"uid":"a b","generation":12,"created":"2026-11-23T12:00:00.123456789Z","new":true}`
		full  = `{"uid":"a","generation":2,"owners":[{"Kind":"k","Key":"x","UID":"u","Controller":true},` +
			`{"Kind":"k","Key":"y","UID":"v","Controller":false}],"finalizers":["f","g"],` +
			`"created":"2026-11-23T12:00:00Z","deleting":"2026-11-23T12:00:01Z"}`
	)
	for _, b := range []string{
		plain,
		full,
		strings.Replace(full, `,"finalizers":["f","g"]`, ``, 1),
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
		strings.Replace(full, `"f",`, `null,`, 1), strings.Replace(full, `"g"]`, `"g"`, 1), strings.Replace(full, `["f","g"]`, `[]`, 1),
		strings.Replace(full, `false}]`, `false}`, 1), strings.Replace(full, `false}]`, `0}]`, 1), strings.Replace(full, `"Key":"y",`, ``, 1),
		strings.Replace(full, `}]`, `},]`, 1),
	} {
		fast, _ := decode([]byte(b))
		if fast {
			t.Errorf("%s: fast = true, want false", b)
		}
	}
}

func TestEveryEnvelopeRoundTripsAsWithEncodingJSON(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 5, time.UTC)
	owner := envelope.Owner{Kind: "k", Key: "x", UID: "u"}
	for i, e := range []envelope.Envelope{
		{},
		{UID: "u", Generation: 1, Created: at, New: true},
		{UID: "u", Owners: []envelope.Owner{owner}, Finalizers: []string{"f"}, Created: at},
		{UID: "u", Owners: []envelope.Owner{owner, {Controller: true}}, Finalizers: []string{"", "g"}, Created: at},

		// The following are not plain.
		{UID: "u", Generation: math.MinInt64, Created: at.In(time.FixedZone("", 3600)), Deleting: at},
		{UID: "u", Created: at, Trace: "00-1"},
		{UID: `"\<&>`, Created: at},
		{UID: "ä", Finalizers: []string{"\u2028"}, Created: at},
		{UID: "u", Finalizers: []string{"\x7f"}, Created: at},
	} {
		plain := i < 4
		b, diff := encode(e)
		if diff != "" {
			t.Errorf("%+v: %s", e, diff)
		}
		if _, fast := envelope.DecodePlain(b); fast != plain {
			t.Errorf("%s: fast = %v, want %v", b, fast, plain)
		}
		got, err := envelope.Decode(b)
		if err != nil {
			t.Errorf("%s: %v", b, err)
		}
		if again, _ := encode(got); string(again) != string(b) {
			t.Errorf("got %s, want %s", again, b)
		}
	}
	for _, e := range []envelope.Envelope{{Created: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, {Created: at, Deleting: at.AddDate(-9999, 0, 0)}} {
		if _, diff := encode(e); diff != "" {
			t.Errorf("%+v: %s", e, diff)
		}
	}
	if _, err := envelope.Decode([]byte(`{"uid":1}`)); err == nil {
		t.Error("err is nil")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"uid":"a","generation":1,"created":"2026-11-23T12:00:00.5Z","new":true}`))
	f.Add([]byte(`{"uid":"","generation":100000000000000000,"created":"0000-01-01T00:00:00-23:59"}`))
	f.Add([]byte(`{"uid":"a","generation":1,"created":"2026-02-30T24:00:60Z"}`))
	f.Add([]byte(`{"uid":"a","generation":2,"owners":[{"Kind":"k","Key":"x","UID":"u","Controller":true}],"finalizers":["f","g"],` +
		`"created":"2026-11-23T12:00:00Z","deleting":"2026-11-23T12:00:01Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, diff := decode(b); diff != "" {
			t.Errorf("%q: %s", b, diff)
		}
	})
}

func FuzzEncode(f *testing.F) {
	f.Add("a", int64(1), "k", true, "f", int64(5), int64(0))
	f.Add("<", int64(-1), "\\", false, "\xff", int64(-1<<62), int64(1<<62))
	f.Fuzz(func(t *testing.T, uid string, generation int64, key string, controller bool, finalizer string, created, deleting int64) {
		e := envelope.Envelope{
			UID: uid, Generation: generation, Owners: []envelope.Owner{{Key: key, Controller: controller}}, Finalizers: []string{finalizer},
			Created: time.Unix(created, created).UTC(), New: controller,
		}
		if deleting != 0 {
			e.Deleting = time.Unix(deleting, 0).UTC()
		}
		if _, diff := encode(e); diff != "" {
			t.Error(diff)
		}
	})
}
