package usertable

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strconv"
	"time"
)

// value is a value of a column, as text.
type value struct {
	text []byte
	null bool
}

// Scan implements [sql.Scanner].
func (v *value) Scan(from any) error {
	v.null, v.text = from == nil, v.text[:0]
	switch from := from.(type) {
	case nil:
	case []byte:
		v.text = append(v.text, from...)
	case string:
		v.text = append(v.text, from...)
	case int64:
		v.text = strconv.AppendInt(v.text, from, 10)
	case float64:
		v.text = strconv.AppendFloat(v.text, from, 'g', -1, 64)
	case time.Time:
		v.text = from.AppendFormat(v.text, time.RFC3339Nano)
	default:
		v.text = fmt.Append(v.text, from)
	}
	return nil
}

// appendValue appends a value to others, so that different values differ.
func appendValue(to []byte, v value) []byte {
	if v.null {
		return append(to, 0)
	}
	return append(binary.AppendUvarint(to, uint64(len(v.text))+1), v.text...)
}

// values are the values of a row.
type values struct {
	all  []value
	dest []any
	key  []int // the columns of the key
	text []byte
	seed maphash.Seed
}

// keyText returns the values of the key, as text that is valid until the next call.
func (v *values) keyText() []byte {
	v.text = v.text[:0]
	for _, i := range v.key {
		v.text = appendValue(v.text, v.all[i])
	}
	return v.text
}

// keyHash returns the hash of the key.
func (v *values) keyHash() uint64 { return maphash.Bytes(v.seed, v.keyText()) }

// hash returns the hash of the row.
func (v *values) hash() uint64 {
	v.text = v.text[:0]
	for _, v1 := range v.all {
		v.text = appendValue(v.text, v1)
	}
	return maphash.Bytes(v.seed, v.text)
}
