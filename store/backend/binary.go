package backend

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
)

// format is the first byte of a record in binary form.
const format = 1

// The bits of the second byte.
const (
	bitDeleted = 1 << iota
	bitBefore
)

var errFormat = errors.New("backend: decode record: not a record in a form that is known")

// MarshalBinary returns r as one byte slice, for databases with such values. It never fails. The same record gives the same bytes.
func (r Record) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// AppendBinary appends the result of MarshalBinary to b.
func (r Record) AppendBinary(b []byte) ([]byte, error) {
	var bits byte
	if r.Deleted {
		bits |= bitDeleted
	}
	if r.Before != nil {
		bits |= bitBefore
	}
	b = append(b, format, bits)
	b = binary.AppendUvarint(b, uint64(r.Version))
	b = appendBytes(b, r.Key)
	b = appendMap(b, r.Labels)
	if r.Before != nil {
		b = appendMap(b, r.Before)
	}
	b = appendBytes(b, r.Meta)
	return appendBytes(b, r.Value), nil
}

func appendBytes[S string | []byte](b []byte, s S) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendMap(b []byte, m map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b = appendBytes(appendBytes(b, key), m[key])
	}
	return b
}

// UnmarshalBinary sets r to the record that MarshalBinary encoded as b. Empty maps become nil, except for Before. It does not keep b.
func (r *Record) UnmarshalBinary(b []byte) error {
	if err := r.Adopt(b); err != nil {
		return err
	}
	both := slices.Concat(r.Meta, r.Value) // one allocation
	r.Meta, r.Value = both[:len(r.Meta):len(r.Meta)], both[len(r.Meta):]
	return nil
}

// Adopt is UnmarshalBinary without a copy: Meta and Value are parts of b. The caller must not use b afterward.
func (r *Record) Adopt(b []byte) error {
	if len(b) < 2 || b[0] != format || b[1] > bitDeleted|bitBefore {
		return errFormat
	}
	d := decoder{rest: b[2:]}
	next := Record{Deleted: b[1]&bitDeleted != 0, Version: informer.Version(d.number()), Key: string(d.bytes())}
	next.Labels = d.mapping()
	if b[1]&bitBefore != 0 {
		if next.Before = d.mapping(); next.Before == nil {
			next.Before = map[string]string{}
		}
	}
	next.Meta, next.Value = d.bytes(), d.bytes()
	if d.failed || len(d.rest) > 0 {
		return errFormat
	}
	*r = next
	return nil
}

// decoder reads from the front of rest.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) mapping() map[string]string {
	n := d.number()
	if n == 0 || n > uint64(len(d.rest)) {
		d.failed = d.failed || n > 0
		return nil
	}
	m := make(map[string]string)
	for ; n > 0 && !d.failed; n-- {
		key := string(d.bytes())
		m[key] = string(d.bytes())
	}
	return m
}
