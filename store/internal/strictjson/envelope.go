package strictjson

import (
	"bytes"
	"time"
)

// Envelope has the fields in the envelope of most objects.
type Envelope struct {
	UID        string    `json:"uid"`
	Generation int64     `json:"generation"`
	Created    time.Time `json:"created"`
	New        bool      `json:"new,omitempty"`
}

// DecodeEnvelope decodes an Envelope as encoding/json writes it. A list decodes one per object, and encoding/json takes about as long for
// it as for the value. It returns false if b is anything else, even if encoding/json can decode it.
func DecodeEnvelope(b []byte) (e Envelope, ok bool) {
	uid, b, ok := plainText(b, `{"uid":"`)
	if !ok {
		return e, false
	}
	b, ok = bytes.CutPrefix(b, []byte(`,"generation":`))
	digits := 0
	for digits < len(b) && '0' <= b[digits] && b[digits] <= '9' {
		e.Generation = 10*e.Generation + int64(b[digits]-'0')
		digits++
	}
	if !ok || digits == 0 || digits > 18 || digits > 1 && b[0] == '0' {
		return e, false
	}
	created, b, ok := plainText(b[digits:], `,"created":"`)
	if !ok || e.Created.UnmarshalText(created) != nil {
		return e, false
	}
	b, e.New = bytes.CutPrefix(b, []byte(`,"new":true`))
	e.UID = string(uid)
	return e, string(b) == "}"
}

// plainText returns the string that follows prefix in b, up to its quote, and the rest of b. It returns false if b does not begin with
// prefix, or if the string has escapes, control characters, or anything but ASCII.
func plainText(b []byte, prefix string) (text, rest []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(prefix))
	if !ok {
		return nil, nil, false
	}
	for i, c := range b {
		switch {
		case c == '"':
			return b[:i], b[i+1:], true
		case c < ' ' || c == '\\' || c > '~':
			return nil, nil, false
		}
	}
	return nil, nil, false
}
