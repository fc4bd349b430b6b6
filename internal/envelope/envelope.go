package envelope

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// Envelope is the envelope of an object.
type Envelope struct {
	UID        string    `json:"uid"`
	Generation int64     `json:"generation"`
	Owners     []Owner   `json:"owners,omitempty"`
	Finalizers []string  `json:"finalizers,omitempty"`
	Created    time.Time `json:"created"`
	Deleting   time.Time `json:"deleting,omitzero"`
	New        bool      `json:"new,omitempty"` // this write created the object
	Trace      string    `json:"trace,omitempty"`
}

// Owner is an owner of an object.
type Owner struct {
	Kind, Key, UID string
	Controller     bool
}

// Encode returns the JSON of e.
func Encode(e *Envelope) ([]byte, error) {
	w := writer{b: make([]byte, 0, 128), plain: true}
	w.add(`{"uid":`)
	w.text(e.UID)
	w.add(`,"generation":`)
	w.b = strconv.AppendInt(w.b, e.Generation, 10)
	if len(e.Owners) > 0 {
		w.add(`,"owners":`)
		open := "["
		for _, o := range e.Owners {
			w.add(open, `{"Kind":`)
			w.text(o.Kind)
			w.add(`,"Key":`)
			w.text(o.Key)
			w.add(`,"UID":`)
			w.text(o.UID)
			w.add(`,"Controller":`, strconv.FormatBool(o.Controller), "}")
			open = ","
		}
		w.add("]")
	}
	if len(e.Finalizers) > 0 {
		w.add(`,"finalizers":`)
		open := "["
		for _, f := range e.Finalizers {
			w.add(open)
			w.text(f)
			open = ","
		}
		w.add("]")
	}
	w.add(`,"created":`)
	w.time(e.Created)
	if !e.Deleting.IsZero() {
		w.add(`,"deleting":`)
		w.time(e.Deleting)
	}
	if e.New {
		w.add(`,"new":true`)
	}
	if !w.plain || e.Trace != "" {
		return json.Marshal(*e) // e would have to be allocated
	}
	w.add("}")
	return w.b, nil
}

// writer writes JSON without escapes.
type writer struct {
	b     []byte
	plain bool // no text has needed an escape
}

func (w *writer) add(texts ...string) {
	for _, t := range texts {
		w.b = append(w.b, t...)
	}
}

func (w *writer) text(t string) {
	for i := range len(t) {
		w.plain = w.plain && isPlain(t[i])
	}
	w.add(`"`, t, `"`)
}

func (w *writer) time(t time.Time) {
	var err error
	w.b = append(w.b, '"')
	w.b, err = t.AppendText(w.b)
	w.b = append(w.b, '"')
	w.plain = w.plain && err == nil
}

// isPlain reports whether encoding/json writes a character as it is, and reads it as it is.
func isPlain(c byte) bool {
	switch c {
	case '"', '\\', '<', '>', '&':
		return false
	}
	return ' ' <= c && c <= '~'
}

// Decode returns the envelope whose JSON is b.
func Decode(b []byte) (Envelope, error) {
	if e, ok := decodePlain(b); ok {
		return e, nil
	}
	e := new(Envelope)
	err := json.Unmarshal(b, e)
	return *e, err
}

// decodePlain decodes what Encode writes without encoding/json. It returns false if b is anything else.
func decodePlain(b []byte) (e Envelope, ok bool) {
	r := reader{b: b}
	r.need(`{"uid":`)
	e.UID = string(r.text())
	r.need(`,"generation":`)
	e.Generation = r.number()
	for open := `,"owners":[{"Kind":`; r.next(open); open = `,{"Kind":` {
		var o Owner
		o.Kind = string(r.text())
		r.need(`,"Key":`)
		o.Key = string(r.text())
		r.need(`,"UID":`)
		o.UID = string(r.text())
		r.need(`,"Controller":`)
		if o.Controller = r.next("true}"); !o.Controller {
			r.need("false}")
		}
		e.Owners = append(e.Owners, o)
	}
	if e.Owners != nil {
		r.need("]")
	}
	for open := `,"finalizers":[`; r.next(open); open = "," {
		e.Finalizers = append(e.Finalizers, string(r.text()))
	}
	if e.Finalizers != nil {
		r.need("]")
	}
	r.need(`,"created":`)
	e.Created = r.time()
	if r.next(`,"deleting":`) {
		e.Deleting = r.time()
	}
	e.New = r.next(`,"new":true`)
	return e, string(r.b) == "}" && !r.failed
}

// reader reads JSON without escapes.
type reader struct {
	b      []byte // the rest
	failed bool   // there was something else
}

// next skips a text, and reports whether it came next.
func (r *reader) next(text string) bool {
	rest, ok := bytes.CutPrefix(r.b, []byte(text))
	r.b = rest
	return ok
}

// need skips a text that must come next.
func (r *reader) need(text string) {
	if !r.next(text) {
		r.failed = true
	}
}

// text reads a string without escapes, and without anything but printable ASCII.
func (r *reader) text() []byte {
	r.need(`"`)
	for i, c := range r.b {
		switch {
		case c == '"':
			text := r.b[:i]
			r.b = r.b[i+1:]
			return text
		case !isPlain(c):
			r.failed = true
			return nil
		}
	}
	r.failed = true
	return nil
}

// number reads a number that is not negative and has at most 18 digits.
func (r *reader) number() (n int64) {
	digits := 0
	for digits < len(r.b) && '0' <= r.b[digits] && r.b[digits] <= '9' {
		n = 10*n + int64(r.b[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 18 || digits > 1 && r.b[0] == '0' {
		r.failed = true
		return 0
	}
	r.b = r.b[digits:]
	return n
}

func (r *reader) time() (t time.Time) {
	if t.UnmarshalText(r.text()) != nil {
		r.failed = true
	}
	return t
}
