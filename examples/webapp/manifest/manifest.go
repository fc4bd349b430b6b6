package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Limits of a manifest.
const (
	MaxSize     = 64 << 10 // bytes of a file
	MaxName     = 40       // bytes of a name
	MaxReplicas = 50
	MaxMessage  = 1000 // bytes of a message
)

// Manifest is the desired state of an app.
type Manifest struct {
	Name     string `json:"name"`     // 1 to 40 of a-z, 0-9 and '-', no '-' at either end; required
	Replicas int    `json:"replicas"` // 0 to 50; required
	Port     int    `json:"port"`     // 1 to 65535, on which the app is served; required
	Message  string `json:"message"`  // at most 1000 bytes, the text that the replicas serve; defaults to ""
}

// Parse returns the manifest in data, the content of file: one JSON object with these fields and no others, each at
// most once, in UTF-8. An error is an [*Error] that names the file, the field, and the limit.
func Parse(file string, data []byte) (Manifest, error) {
	m, field, err := parse(data)
	if err != nil {
		return Manifest{}, &Error{File: file, Field: field, Err: err}
	}
	return m, nil
}

func parse(data []byte) (m Manifest, field string, err error) {
	switch {
	case len(data) > MaxSize:
		return m, "", fmt.Errorf("the file has more than %d bytes", MaxSize)
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return m, "", errors.New("the file begins with a byte order mark: save it as UTF-8 without one")
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return m, "", errors.New("the file is in UTF-16: save it as UTF-8")
	case !utf8.Valid(data):
		return m, "", errors.New("the file is not in UTF-8")
	case len(bytes.TrimSpace(data)) == 0:
		return m, "", errors.New("the file is empty")
	}
	fields, field, err := members(data)
	if err != nil {
		return m, field, err
	}
	for _, f := range []struct {
		name     string
		into     any
		required bool
	}{
		{"name", &m.Name, true},
		{"replicas", &m.Replicas, true},
		{"port", &m.Port, true},
		{"message", &m.Message, false},
	} {
		value, ok := fields[f.name]
		if !ok && f.required {
			return m, f.name, errors.New("is missing")
		}
		if ok {
			if err := decode(value, f.into); err != nil {
				return m, f.name, err
			}
		}
	}
	field, err = m.validate()
	return m, field, err
}

// members returns the members of the only value in data, which must be an object with fields of a manifest. The
// standard decoder alone would accept repeated fields, fields in any case, and null for any of them.
func members(data []byte) (map[string]json.RawMessage, string, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // otherwise the error about a number that fits no float would repeat the number
	if token, err := d.Token(); err != nil {
		return nil, "", whole(err)
	} else if token != json.Delim('{') {
		return nil, "", errors.New("the file does not hold a JSON object")
	}
	fields := make(map[string]json.RawMessage)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, "", whole(err)
		}
		name := token.(string) // the decoder accepts nothing else there
		switch name {
		case "name", "replicas", "port", "message":
		default:
			return nil, "", fmt.Errorf("there is no field %q", shorten(name))
		}
		if _, twice := fields[name]; twice {
			return nil, name, errors.New("is there twice")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, name, whole(err)
		}
		fields[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, "", whole(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, "", errors.New("there is something after the object")
	}
	return fields, "", nil
}

// whole replaces the error for truncated data by a plain one.
func whole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends in the middle")
	}
	return err
}

// shorten makes text from a file fit for a line of a log.
func shorten(text string) string {
	if len(text) > MaxName {
		text = strings.ToValidUTF8(text[:MaxName], "") + "..."
	}
	return text
}

// decode decodes one value, an integer or a string, depending on the type of as. The errors of the decoder repeat the
// value, which can be long.
func decode(value json.RawMessage, into any) error {
	if err := json.Unmarshal(value, into); err == nil && string(value) != "null" {
		return nil
	}
	if _, ok := into.(*int); !ok {
		return errors.New("is not a string")
	}
	switch c := value[0]; {
	case c == '"':
		return errors.New("is a string: write the number without quotes")
	case c != '-' && (c < '0' || c > '9'):
		return errors.New("is not a number")
	case bytes.ContainsAny(value, ".eE"):
		return fmt.Errorf("is %s: write an integer, in digits alone", shorten(string(value)))
	default:
		return errors.New("has more digits than any limit")
	}
}

// validate returns the first field that is out of its limits, and the error.
func (m Manifest) validate() (field string, err error) {
	switch {
	case m.Name == "" || len(m.Name) > MaxName:
		return "name", fmt.Errorf("has %d bytes; the limits are 1 and %d", len(m.Name), MaxName)
	case strings.Trim(m.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Trim(m.Name, "-") != m.Name:
		return "name", fmt.Errorf("%q is not made of a-z, 0-9 and '-' with no '-' at either end", m.Name)
	case m.Replicas < 0 || m.Replicas > MaxReplicas:
		return "replicas", fmt.Errorf("is %d; the limits are 0 and %d", m.Replicas, MaxReplicas)
	case m.Port < 1 || m.Port > 65535:
		return "port", fmt.Errorf("is %d; the limits are 1 and 65535", m.Port)
	case len(m.Message) > MaxMessage:
		return "message", fmt.Errorf("has %d bytes; the limit is %d", len(m.Message), MaxMessage)
	case strings.ContainsRune(m.Message, 0):
		return "message", errors.New("holds a NUL, which no argument of a process can")
	default:
		return "", nil
	}
}
